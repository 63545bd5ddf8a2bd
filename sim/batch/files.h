// Files of a run: mapped for reading, written whole. Every failure ends the program with a message and exit code 3, so
// that a full disk is never taken for a short result.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace batch {

[[noreturn]] inline void die(const std::string &message) {
    std::printf("batch driver: %s\n", message.c_str());
    std::fflush(stdout);
    std::_Exit(3);
}

// A file of `count` beats of `size` bytes, mapped into memory.
class BeatFile {
public:
    BeatFile(const std::string &path, size_t size, size_t count) : m_size{size}, m_count{count} {
        const int file = ::open(path.c_str(), O_RDONLY);
        struct stat state;
        if (file < 0 || ::fstat(file, &state)) die(path + ": " + std::strerror(errno));
        if (static_cast<size_t>(state.st_size) != size * count) die(path + " does not have the size the plan promises");
        if (state.st_size) {
            void *const map = ::mmap(nullptr, state.st_size, PROT_READ, MAP_PRIVATE, file, 0);
            if (map == MAP_FAILED) die(path + ": " + std::strerror(errno));
            m_data = static_cast<const unsigned char *>(map);
        }
        ::close(file);
    }
    const unsigned char *at(size_t index) const { return m_data + index * m_size; }
    size_t size() const { return m_size; }
    size_t count() const { return m_count; }

private:
    const unsigned char *m_data = nullptr;
    size_t m_size, m_count;
};

inline void write_file(const std::string &path, const void *data, size_t size) {
    std::FILE *const file = std::fopen(path.c_str(), "wb");
    if (!file) die(path + ": " + std::strerror(errno));
    const bool written = std::fwrite(data, 1, size, file) == size;
    if (std::fclose(file) != 0 || !written) die(path + " cannot be written: " + std::strerror(errno));
}

}  // namespace batch
