/* Records what a process writes to one journal, in the order in which it happens.
 *
 * Preloaded. POST_ONCE_RECORD names the journal; its writes, and those to its -wal, are noted in
 * <journal>.log, and so is what is written to <journal>.ack. Nothing is flushed for real: what a flush
 * would have saved is worked out from the log. For as long as there is a <journal>.broken, a flush of the
 * -wal fails.
 *
 * A record: kind and file (a byte each), two bytes of nothing, thread, offset, length, and the bytes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 4096 };
/* Of each descriptor: 'd' the database, 'w' its log, 'a' what was acknowledged. */
static char of[FILES];
static int record = -1;
static const char *journal;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
    char path[4096];
    journal = getenv("POST_ONCE_RECORD");
    if (!journal) return;
    snprintf(path, sizeof path, "%s.log", journal);
    record = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (record < 0) abort();
}

static char file_of(int fd) { return fd >= 0 && fd < FILES ? of[fd] : 0; }

static void note(char kind, char file, int64_t offset, const void *bytes, int64_t length) {
    struct {
        char kind, file, nothing[2];
        uint32_t thread;
        int64_t offset, length;
    } head = {kind, file, {0}, (uint32_t)syscall(SYS_gettid), offset, length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)bytes, bytes ? (size_t)length : 0}};
    ssize_t all = (ssize_t)(parts[0].iov_len + parts[1].iov_len);
    if (syscall(SYS_writev, record, parts, 2) != all) abort();
}

static int open_it(const char *path, int flags, int mode) {
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd < 0 || !journal) return fd;
    if (fd >= FILES) abort();
    size_t length = strlen(journal);
    of[fd] = 0;
    if (strncmp(path, journal, length)) return fd;
    const char *rest = path + length;
    of[fd] = !*rest ? 'd' : !strcmp(rest, "-wal") ? 'w' : !strcmp(rest, ".ack") ? 'a' : 0;
    return fd;
}

#define OPEN(name)                                                                                     \
    int name(const char *path, int flags, ...) {                                                       \
        va_list rest;                                                                                  \
        va_start(rest, flags);                                                                         \
        int mode = flags & O_CREAT ? va_arg(rest, int) : 0;                                            \
        va_end(rest);                                                                                  \
        return open_it(path, flags, mode);                                                             \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    if (fd >= 0 && fd < FILES) of[fd] = 0;
    return syscall(SYS_close, fd);
}

static ssize_t write_it(int fd, const void *bytes, size_t count, off_t offset, int at) {
    char file = file_of(fd);
    if (!file) return at ? syscall(SYS_pwrite64, fd, bytes, count, offset) : syscall(SYS_write, fd, bytes, count);
    pthread_mutex_lock(&lock);
    if (!at) offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    ssize_t done = at ? syscall(SYS_pwrite64, fd, bytes, count, offset) : syscall(SYS_write, fd, bytes, count);
    int error = errno;
    if (done > 0) note('W', file, offset, bytes, done);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *bytes, size_t count) { return write_it(fd, bytes, count, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return write_it(fd, bytes, count, at, 1); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) { return write_it(fd, bytes, count, at, 1); }

static int truncate_it(int fd, off_t size) {
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_ftruncate, fd, size);
    int error = errno;
    if (!failed && file_of(fd)) note('T', file_of(fd), size, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return failed;
}

int ftruncate(int fd, off_t size) { return truncate_it(fd, size); }
int ftruncate64(int fd, off_t size) { return truncate_it(fd, size); }

static int broken(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.broken", journal);
    return !syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
}

static int sync_it(int fd) {
    if (!file_of(fd)) return 0;
    if (file_of(fd) == 'w' && broken()) {
        errno = EIO;
        return -1;
    }
    pthread_mutex_lock(&lock);
    note('S', file_of(fd), 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd) { return sync_it(fd); }
int fdatasync(int fd) { return sync_it(fd); }
