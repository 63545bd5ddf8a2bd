/* A disk that is full: every write to a file below the folder FULL_DISK fails after FULL_DISK_BYTES bytes.

   The library call is answered instead of the kernel, so that no privilege and no file system are needed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int inside(int fd) {
  const char *folder = getenv("FULL_DISK");
  char link[64], path[4096];
  if (!folder) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

ssize_t write(int fd, const void *data, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  static size_t written;
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (inside(fd)) {
    const char *limit = getenv("FULL_DISK_BYTES");
    if (written + size > (limit ? strtoul(limit, 0, 10) : 0)) {
      errno = ENOSPC;
      return -1;
    }
    written += size;
  }
  return real(fd, data, size);
}
