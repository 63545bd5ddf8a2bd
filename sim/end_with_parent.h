// A simulator ends when the process that started it does, however that ended: SIGTERM and SIGKILL leave no time to stop
// a child, and one that lives on writes into a folder that the next run takes for its own. Included by the main program
// of every engine. The host names itself in the environment; a simulator that is started in another way is left alone,
// as is one on a system other than Linux.
#pragma once

#ifdef __linux__
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

[[maybe_unused]] const bool ends_with_parent = [] {
    const char *const named = std::getenv("MASE_HW_HOST");
    if (!named) return false;
    const pid_t host = std::atoi(named);
    const bool child = getppid() == host;
    if (child) prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have ended before the kernel was asked.
    if (getppid() != host && kill(host, 0) != 0 && errno == ESRCH) std::_Exit(1);
    return child;
}();

}  // namespace
#endif
