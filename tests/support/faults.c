/* Makes one call of the system fail: a library for LD_PRELOAD (Linux, glibc; faults.py builds and steers it).

   Calls of nine kinds are counted that concern files below one folder, or all calls where no folder is given: by their
   path, or by the path that /proc tells of their descriptor, so that descriptors that were inherited or copied count
   too.  The call of a chosen number and kind fails with a chosen errno, once or from there on, without being made; but
   close() does close before it fails.  Or the place ends: after so many bytes written, writes are cut and then fail.

   Arrays that numpy reads and writes through stdio pass fread, fwrite and fclose, which are counted as what they do.

   Counts lie in a file that is mapped as memory, made by whoever steers: they outlive a crash, and children of the
   process add to them.  Calls of our own go to the kernel directly, so that none is counted. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, FSYNC, RENAME, UNLINK, MKDIR, CLOSE, TRUNCATE, KINDS };

struct report {
    int64_t fired;        /* calls that failed */
    int64_t bytes;        /* written */
    int64_t calls[KINDS]; /* counted */
    char path[PATH_MAX];  /* of the first call that failed */
};

static struct report nowhere, *report = &nowhere;
static int armed, fault_kind = -1, fault_errno, onwards, show_stack;
static int64_t position, capacity = -1; /* capacity: bytes until the place is full; -1: none */
static char root[PATH_MAX];
static size_t root_length;

/* ---------------------------------------------------------------------------------------------------- steering */

/* kind: a number of the enumeration, or KINDS: writes end after `number` bytes.  folder "": every call counts. */
int faults_arm(const char *folder, int kind, long number, int error, int from_there_on, int stack, const char *file) {
    int descriptor = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    void *mapped = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    if (mapped == MAP_FAILED || strlen(folder) >= sizeof root) return -1;
    report = mapped;
    strcpy(root, folder);
    root_length = strlen(root);
    fault_kind = kind == KINDS ? -1 : kind;
    capacity = kind == KINDS ? number : -1;
    position = number;
    fault_errno = error;
    onwards = from_there_on;
    show_stack = stack;
    armed = 1;
    return 0;
}

/* A child that the command starts with exec is steered by the same variables. */
__attribute__((constructor)) static void arm_by_environment(void) {
    const char *file = getenv("FAULTS_REPORT"), *folder = getenv("FAULTS_ROOT");
    const char *order = getenv("FAULTS_ORDER"); /* KIND POSITION ERRNO ONWARDS, as numbers */
    int kind, error, from_there_on;
    long number;
    if (file && folder && order && sscanf(order, "%d %ld %d %d", &kind, &number, &error, &from_there_on) == 4)
        faults_arm(folder, kind, number, error, from_there_on, 0, file);
}

/* ---------------------------------------------------------------------------------------------------- which calls */

static int is_below(const char *path) {
    return root_length == 0 || (strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]));
}

/* The path of a descriptor, "" where it has none. */
static void path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* The absolute path of a name, without "." and ".."; links are not followed. */
static void absolute(int folder, const char *name, char *path) {
    char whole[2 * PATH_MAX];
    path[0] = 0;
    if (name[0] == '/' || strlen(name) >= PATH_MAX) whole[0] = 0;
    else if (folder != AT_FDCWD) path_of(folder, whole);
    else if (syscall(SYS_getcwd, whole, (size_t)PATH_MAX) < 0) whole[0] = 0;
    size_t length = strlen(whole), end = 0;
    snprintf(whole + length, sizeof whole - length, "/%s", name);
    for (char *rest = NULL, *part = strtok_r(whole, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        if (strcmp(part, ".") == 0) continue;
        if (strcmp(part, "..") == 0) {
            while (end && path[--end] != '/') {}
            path[end] = 0;
        } else if (end + strlen(part) + 2 < PATH_MAX)
            end += (size_t)sprintf(path + end, "/%s", part);
    }
}

/* Count a call on a path, and say whether it must fail (errno is set). */
static int fails(int kind, const char *path) {
    if (!is_below(path)) return 0;
    int64_t number = __atomic_add_fetch(&report->calls[kind], 1, __ATOMIC_SEQ_CST);
    if (kind != fault_kind || (onwards ? number < position : number != position)) return 0;
    if (__atomic_fetch_add(&report->fired, 1, __ATOMIC_SEQ_CST) == 0) {
        snprintf(report->path, sizeof report->path, "%s", path);
        if (show_stack) raise(SIGUSR1); /* Python's faulthandler shows where the call came from */
    }
    errno = fault_errno;
    return 1;
}

static int fails_at(int kind, int folder, const char *name) {
    char path[PATH_MAX];
    if (!armed || !name) return 0;
    int before = errno;
    absolute(folder, name, path);
    errno = before;
    return fails(kind, path);
}

static int fails_on(int kind, int descriptor) {
    char path[PATH_MAX];
    if (!armed) return 0;
    int before = errno;
    path_of(descriptor, path);
    errno = before;
    return path[0] == '/' && fails(kind, path); /* pipes and sockets have no path */
}

/* How much of a write is made: all of it, or what there is space for; -1: it fails. */
static ssize_t allowed(int descriptor, size_t length) {
    if (!armed) return (ssize_t)length;
    if (fails_on(WRITE, descriptor)) return -1;
    char path[PATH_MAX];
    int before = errno;
    path_of(descriptor, path);
    errno = before;
    if (path[0] != '/' || !is_below(path)) return (ssize_t)length;
    int64_t already = __atomic_fetch_add(&report->bytes, (int64_t)length, __ATOMIC_SEQ_CST);
    if (capacity < 0 || already + (int64_t)length <= capacity) return (ssize_t)length;
    if (__atomic_fetch_add(&report->fired, 1, __ATOMIC_SEQ_CST) == 0)
        snprintf(report->path, sizeof report->path, "%s", path);
    errno = fault_errno;
    return already < capacity ? (ssize_t)(capacity - already) : -1;
}

/* ---------------------------------------------------------------------------------------------------- open */

static int open_at(int folder, const char *name, int flags, mode_t mode) {
    return fails_at(OPEN, folder, name) ? -1 : (int)syscall(SYS_openat, folder, name, flags, mode);
}

#define MODE(flags, mode)                                     \
    mode_t mode = 0;                                          \
    if (flags & (O_CREAT | O_TMPFILE)) {                      \
        va_list rest;                                         \
        va_start(rest, flags);                                \
        mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                         \
    }

int open(const char *name, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags, mode) return open_at(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags, mode) return open_at(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int __open_2(const char *name, int flags) { return open_at(AT_FDCWD, name, flags, 0); }
int __open64_2(const char *name, int flags) { return open_at(AT_FDCWD, name, flags, 0); }
int __openat_2(int folder, const char *name, int flags) { return open_at(folder, name, flags, 0); }
int __openat64_2(int folder, const char *name, int flags) { return open_at(folder, name, flags, 0); }

/* Listing a folder opens it, by a call within glibc that cannot be caught. */
void *opendir(const char *name) {
    static void *(*real)(const char *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    return fails_at(OPEN, AT_FDCWD, name) ? NULL : real(name);
}

/* ---------------------------------------------------------------------------------------------------- read */

ssize_t read(int d, void *buffer, size_t n) { return fails_on(READ, d) ? -1 : syscall(SYS_read, d, buffer, n); }
ssize_t __read_chk(int d, void *buffer, size_t n, size_t size) { (void)size; return read(d, buffer, n); }
ssize_t readv(int d, const struct iovec *v, int n) { return fails_on(READ, d) ? -1 : syscall(SYS_readv, d, v, n); }

static ssize_t read_at(int d, void *buffer, size_t n, off_t place) {
    return fails_on(READ, d) ? -1 : syscall(SYS_pread64, d, buffer, n, place);
}

ssize_t pread(int d, void *buffer, size_t n, off_t place) { return read_at(d, buffer, n, place); }
ssize_t pread64(int d, void *buffer, size_t n, off64_t place) { return read_at(d, buffer, n, place); }
ssize_t __pread_chk(int d, void *buffer, size_t n, off_t place, size_t size) { (void)size; return read_at(d, buffer, n, place); }
ssize_t __pread64_chk(int d, void *buffer, size_t n, off64_t place, size_t size) { (void)size; return read_at(d, buffer, n, place); }
ssize_t preadv(int d, const struct iovec *v, int n, off_t place) {
    return fails_on(READ, d) ? -1 : syscall(SYS_preadv, d, v, n, place, 0);
}
ssize_t preadv2(int d, const struct iovec *v, int n, off_t place, int flags) {
    return fails_on(READ, d) ? -1 : syscall(SYS_preadv2, d, v, n, place, 0, flags);
}
ssize_t preadv64v2(int d, const struct iovec *v, int n, off64_t place, int flags) { return preadv2(d, v, n, place, flags); }
ssize_t preadv64(int d, const struct iovec *v, int n, off64_t place) { return preadv(d, v, n, place); }

#define STDIO(kind, missed)                                       \
    static size_t (*real)();                                      \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, __func__);      \
    return fails_on(kind, fileno(file)) ? missed : real(buffer, size, n, file);

size_t fread(void *buffer, size_t size, size_t n, FILE *file) { STDIO(READ, 0) }

/* ---------------------------------------------------------------------------------------------------- write */

ssize_t write(int d, const void *buffer, size_t n) {
    ssize_t part = allowed(d, n);
    return part < 0 ? -1 : syscall(SYS_write, d, buffer, part);
}

static ssize_t write_at(int d, const void *buffer, size_t n, off_t place) {
    ssize_t part = allowed(d, n);
    return part < 0 ? -1 : syscall(SYS_pwrite64, d, buffer, part, place);
}

ssize_t pwrite(int d, const void *buffer, size_t n, off_t place) { return write_at(d, buffer, n, place); }
ssize_t pwrite64(int d, const void *buffer, size_t n, off64_t place) { return write_at(d, buffer, n, place); }

/* Of several parts: the first one where there is no space for all, as the system may do it too. */
static ssize_t write_parts(int d, const struct iovec *v, int n, int with_place, off_t place) {
    size_t whole = 0;
    for (int i = 0; i < n; i++) whole += v[i].iov_len;
    ssize_t part = allowed(d, whole);
    if (part < 0) return -1;
    if ((size_t)part == whole)
        return with_place ? syscall(SYS_pwritev, d, v, n, place, 0) : syscall(SYS_writev, d, v, n);
    size_t first = v[0].iov_len < (size_t)part ? v[0].iov_len : (size_t)part;
    return with_place ? syscall(SYS_pwrite64, d, v[0].iov_base, first, place) : syscall(SYS_write, d, v[0].iov_base, first);
}

ssize_t writev(int d, const struct iovec *v, int n) { return write_parts(d, v, n, 0, 0); }
ssize_t pwritev(int d, const struct iovec *v, int n, off_t place) { return write_parts(d, v, n, 1, place); }
ssize_t pwritev64(int d, const struct iovec *v, int n, off64_t place) { return write_parts(d, v, n, 1, place); }
size_t fwrite(const void *buffer, size_t size, size_t n, FILE *file) { STDIO(WRITE, 0) }

/* ---------------------------------------------------------------------------------------------------- the others */

int fsync(int d) { return fails_on(FSYNC, d) ? -1 : (int)syscall(SYS_fsync, d); }
int fdatasync(int d) { return fails_on(FSYNC, d) ? -1 : (int)syscall(SYS_fdatasync, d); }

static int rename_at(int from, const char *name, int to, const char *other, unsigned flags) {
    if (fails_at(RENAME, to, other)) return -1;
    return (int)syscall(SYS_renameat2, from, name, to, other, flags);
}

int rename(const char *name, const char *other) { return rename_at(AT_FDCWD, name, AT_FDCWD, other, 0); }
int renameat(int from, const char *name, int to, const char *other) { return rename_at(from, name, to, other, 0); }
int renameat2(int from, const char *name, int to, const char *other, unsigned flags) { return rename_at(from, name, to, other, flags); }
int link(const char *name, const char *other) {
    return fails_at(RENAME, AT_FDCWD, other) ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, name, AT_FDCWD, other, 0);
}
int linkat(int from, const char *name, int to, const char *other, int flags) {
    return fails_at(RENAME, to, other) ? -1 : (int)syscall(SYS_linkat, from, name, to, other, flags);
}

int unlinkat(int folder, const char *name, int flags) {
    return fails_at(UNLINK, folder, name) ? -1 : (int)syscall(SYS_unlinkat, folder, name, flags);
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    if (fails_at(UNLINK, AT_FDCWD, name)) return -1;
    if (syscall(SYS_unlinkat, AT_FDCWD, name, 0) == 0) return 0;
    return errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR) : -1;
}

int mkdirat(int folder, const char *name, mode_t mode) {
    return fails_at(MKDIR, folder, name) ? -1 : (int)syscall(SYS_mkdirat, folder, name, mode);
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int ftruncate(int d, off_t length) { return fails_on(TRUNCATE, d) ? -1 : (int)syscall(SYS_ftruncate, d, length); }
int ftruncate64(int d, off64_t length) { return ftruncate(d, length); }
int truncate(const char *name, off_t length) {
    return fails_at(TRUNCATE, AT_FDCWD, name) ? -1 : (int)syscall(SYS_truncate, name, length);
}
int truncate64(const char *name, off64_t length) { return truncate(name, length); }

int close(int d) {
    int failed = fails_on(CLOSE, d);
    int closed = (int)syscall(SYS_close, d);
    if (failed) errno = fault_errno;
    return failed ? -1 : closed;
}

int fclose(FILE *file) {
    static int (*real)(FILE *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fclose");
    int failed = fails_on(CLOSE, fileno(file));
    int closed = real(file);
    if (failed) errno = fault_errno;
    return failed ? EOF : closed;
}
