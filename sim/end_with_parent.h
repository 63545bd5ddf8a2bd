// A simulator ends when the process that started it does, however that ended: SIGTERM and SIGKILL leave no time to stop
// a child, and one that lives on writes into a folder that the next run takes for its own. Included by the main program
// of every engine. The host names itself in the environment; a simulator that is started in another way is left alone,
// as is one on a system other than Linux.
#pragma once

#ifdef __linux__
#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

[[maybe_unused]] const bool ends_with_parent = [] {
    const char *const host = std::getenv("MASE_HW_HOST");
    if (!host || std::atoi(host) != getppid()) return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::atoi(host) != getppid()) std::_Exit(1);  // it ended just before
    return true;
}();

}  // namespace
#endif
