/* Preloaded before the peers, which have no switch for it: files whose name ends in ".direct" are opened with O_DIRECT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

static int with_direct(const char *path, int flags)
{
    static const char ending[] = ".direct";
    size_t length = strlen(path), tail = sizeof ending - 1;
    return length >= tail && strcmp(path + length - tail, ending) == 0 ? flags | O_DIRECT : flags;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        static int (*next)(const char *, int, ...); \
        MODE(flags) \
        if (!next) \
            next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        return next(path, with_direct(path, flags), mode); \
    }

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        static int (*next)(int, const char *, int, ...); \
        MODE(flags) \
        if (!next) \
            next = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        return next(folder, path, with_direct(path, flags), mode); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
