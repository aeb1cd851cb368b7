/* shm_join.c: how the ranks of the engine "shm" find each other.
 *
 * Rank 0 listens at an abstract address of the communicator's name and the others connect. Each
 * says who it is and hands over a handle of its own process (a pidfd), by which others can see it
 * end; when all have come, rank 0 makes the memory and hands it and all the handles to each. Only
 * processes of the same user are believed. A rank that comes while the address still belongs to an
 * earlier communicator of the name, or to nobody, tries again until its time is over. */
#include "runtime.h"
#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x6c73636d, VERSION = 1, RETRY_MS = 5, HANDLES = SHM_RANKS + 1 };

typedef struct Hello {
    uint32_t magic, version;
    int rank, size;
    double timeout_s;
} Hello;
typedef enum Answer { ANSWER_WELCOME, ANSWER_LATER, ANSWER_NO } Answer;
typedef struct Welcome {
    uint32_t magic, answer;
    double timeout_s;
    ShmMap *map; /* for threads of rank 0's process */
    int processes[SHM_RANKS];
    bool known[SHM_RANKS]; /* whose handles come along */
    char reason[256];      /* of ANSWER_NO */
} Welcome;

typedef struct Join {
    const CommPlace *place;
    Error *error;
    double until_us;
    struct sockaddr_un address;
    socklen_t address_bytes;
} Join;

typedef struct Guest { /* what rank 0 knows of another */
    int socket, life, process;
    Hello hello;
} Guest;

/* ---- messages with handles ---- */

static bool send_message(int socket, void *data, size_t bytes, const int *handles, size_t count) {
    union {
        char bytes[CMSG_SPACE(HANDLES * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec what = {.iov_base = data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &what, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), handles, count * sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* All of a message, or false; handles that are not taken are closed. */
static bool receive_message(int socket, void *data, size_t bytes, int *handles, size_t most,
                            size_t *count) {
    union {
        char bytes[CMSG_SPACE(HANDLES * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec what = {.iov_base = data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &what,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    *count = 0;
    for (struct cmsghdr *head = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL; head;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int handle;
            memcpy(&handle, CMSG_DATA(head) + i * sizeof handle, sizeof handle);
            if (*count < most)
                handles[(*count)++] = handle;
            else
                close(handle);
        }
    }
    if (got == (ssize_t)bytes) return true;
    while (*count > 0) close(handles[--*count]);
    return false;
}

/* Whether something can be read before the time is over. */
static bool wait_readable(const Join *join, int socket) {
    for (;;) {
        const double left = (join->until_us - time_us()) * 1e-3;
        struct pollfd one = {.fd = socket, .events = POLLIN};
        const int ready = poll(&one, 1, left < 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (left <= 0) return false;
    }
}

static void pause_a_little(void) {
    const struct timespec little = {.tv_nsec = RETRY_MS * 1000000};
    nanosleep(&little, NULL);
}

static bool is_ours(int socket, int *process) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) return false;
    *process = who.pid;
    return who.uid == geteuid();
}

/* Where the system has no such handles the end of a process is noticed by the time-out only. */
static int own_life(void) {
#ifdef SYS_pidfd_open
    const int life = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (life < 0)
        log_write(LOG_INFO,
                  "ranks that end are noticed by the time-out only: the system has no handles of "
                  "processes (pidfd_open: %s)",
                  strerror(errno));
    return life;
#else
    return -1;
#endif
}

static void name_address(Join *join) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < sizeof join->place->id->bytes; i++)
        hash = (hash ^ (unsigned char)join->place->id->bytes[i]) * 0x100000001b3u;
    join->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(join->address.sun_path + 1, sizeof join->address.sun_path - 1,
                 "lockstep-comm-%u-%016llx", (unsigned)geteuid(), (unsigned long long)hash);
    join->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static ls_status system_error(const Join *join, const char *doing) {
    return error_set(join->error, LS_ERROR_COMM, "%s: %s", doing, strerror(errno));
}

/* ---- rank 0 ---- */

static ls_status listen_at(const Join *join, int *listener) {
    for (;;) {
        *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (*listener < 0) return system_error(join, "a socket for the other ranks");
        if (bind(*listener, (const struct sockaddr *)&join->address, join->address_bytes) == 0 &&
            listen(*listener, SHM_RANKS) == 0)
            return LS_OK;
        ls_status status = system_error(join, "listening for the other ranks");
        const bool taken = errno == EADDRINUSE;
        close(*listener);
        *listener = -1;
        if (!taken || time_us() > join->until_us) return status;
        pause_a_little();
    }
}

static void answer(int socket, Answer what, const char *reason) {
    Welcome welcome = {.magic = MAGIC, .answer = what};
    snprintf(welcome.reason, sizeof welcome.reason, "%s", reason);
    send_message(socket, &welcome, sizeof welcome, NULL, 0);
    close(socket);
}

/* Takes one that has come in; a rank that comes twice is here for the next communicator. */
static ls_status take_guest(const Join *join, int socket, Guest *guests, int *missing) {
    const CommPlace *place = join->place;
    Guest guest = {.socket = socket, .life = -1};
    size_t handles = 0;
    if (!is_ours(socket, &guest.process) || !wait_readable(join, socket) ||
        !receive_message(socket, &guest.hello, sizeof guest.hello, &guest.life, 1, &handles)) {
        close(socket);
        return LS_OK;
    }
    const Hello *hello = &guest.hello;
    const bool same = hello->magic == MAGIC && hello->version == VERSION;
    if (same && hello->size == place->size && hello->rank > 0 && hello->rank < place->size) {
        if (guests[hello->rank].socket < 0) {
            guests[hello->rank] = guest;
            --*missing;
            return LS_OK;
        }
        answer(socket, ANSWER_LATER, "");
    } else {
        error_set(join->error, LS_ERROR_COMM,
                  same ? "process %d came as rank %d of %d, where rank 0 is of %d"
                       : "process %d has another version of Lockstep",
                  guest.process, hello->rank, hello->size, place->size);
        answer(socket, ANSWER_NO, join->error->text);
    }
    if (handles > 0) close(guest.life);
    return same && hello->size == place->size ? LS_OK : LS_ERROR_COMM;
}

static ls_status not_come(const Join *join, const Guest *guests) {
    char who[160];
    size_t used = 0;
    for (int rank = 1; rank < join->place->size && used < sizeof who - 8; rank++)
        if (guests[rank].socket < 0)
            used += (size_t)snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", rank);
    return error_set(join->error, LS_ERROR_COMM,
                     "rank 0 waited for %.3g s and these ranks of %d did not come: %s",
                     join->place->timeout_s, join->place->size, who);
}

static ls_status gather_guests(const Join *join, Guest *guests) {
    int listener = -1, missing = join->place->size - 1;
    ls_status status = listen_at(join, &listener);
    while (status == LS_OK && missing > 0) {
        if (!wait_readable(join, listener)) {
            status = not_come(join, guests);
            break;
        }
        const int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket >= 0) status = take_guest(join, socket, guests, &missing);
    }
    if (listener >= 0) close(listener);
    return status;
}

/* Memory that is there: what is missing later would end the process. */
static ls_status make_memory(const Join *join, int *file) {
    const uint64_t bytes = shm_bytes(join->place->size);
    *file = memfd_create("lockstep:comm", MFD_CLOEXEC);
    if (*file < 0) return system_error(join, "a memory file for the ranks");
    const int failed = posix_fallocate(*file, 0, (off_t)bytes);
    if (!failed) return LS_OK;
    close(*file);
    *file = -1;
    return error_set(join->error, LS_ERROR_MEMORY, "%llu bytes of shared memory for %d ranks: %s",
                     (unsigned long long)bytes, join->place->size, strerror(failed));
}

static void fill_header(const Shm *shm, const Guest *guests) {
    shm->header->size = (uint32_t)shm->size;
    for (int rank = 0; rank < shm->size; rank++)
        shm->header->ranks[rank].process = guests[rank].process;
}

/* To each the memory and the handles; to threads of this process its map. */
static ls_status welcome_all(const Join *join, const Shm *shm, int file, const Guest *guests) {
    Welcome welcome = {.magic = MAGIC, .answer = ANSWER_WELCOME, .timeout_s = shm->timeout_s};
    int handles[HANDLES] = {file};
    size_t count = 1;
    for (int rank = 0; rank < shm->size; rank++) {
        welcome.known[rank] = guests[rank].life >= 0;
        if (welcome.known[rank]) handles[count++] = guests[rank].life;
    }
    for (int rank = 1; rank < shm->size; rank++) {
        const bool here = guests[rank].process == getpid();
        welcome.map = here ? shm->map : NULL;
        if (here) atomic_fetch_add(&shm->map->users, 1);
        if (send_message(guests[rank].socket, &welcome, sizeof welcome, handles, count)) continue;
        if (here) atomic_fetch_sub(&shm->map->users, 1);
        return error_set(join->error, LS_ERROR_COMM, "rank %d (process %d) went away: %s", rank,
                         guests[rank].process, strerror(errno));
    }
    return LS_OK;
}

static ls_status host(Shm *shm, const Join *join, Guest *guests) {
    int file = -1;
    ls_status status = shm->size > 1 ? gather_guests(join, guests) : LS_OK;
    if (status == LS_OK) status = make_memory(join, &file);
    if (status == LS_OK) status = shm_map(file, shm->size, join->error, &shm->map);
    if (status == LS_OK) {
        shm->header = shm->map->header;
        for (int rank = 1; rank < shm->size; rank++)
            if (guests[rank].hello.timeout_s < shm->timeout_s)
                shm->timeout_s = guests[rank].hello.timeout_s;
        fill_header(shm, guests);
        status = welcome_all(join, shm, file, guests);
    }
    for (int rank = 1; rank < shm->size; rank++) {
        if (guests[rank].socket < 0) continue;
        if (status != LS_OK)
            answer(guests[rank].socket, ANSWER_NO, join->error->text);
        else
            close(guests[rank].socket);
        shm->lives[rank] = guests[rank].life;
    }
    if (file >= 0) close(file);
    return status;
}

/* ---- the others ---- */

/* A connection to rank 0, or -1: nobody listens there yet. */
static int connect_to(const Join *join) {
    int process;
    const int socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket_ >= 0 &&
        connect(socket_, (const struct sockaddr *)&join->address, join->address_bytes) == 0 &&
        is_ours(socket_, &process))
        return socket_;
    if (socket_ >= 0) close(socket_);
    return -1;
}

static ls_status enter(Shm *shm, const Join *join, const Welcome *welcome, const int *handles,
                       size_t count) {
    size_t next = 1;
    ls_status status = LS_OK;
    for (int rank = 0; rank < shm->size; rank++)
        if (welcome->known[rank] && next < count) shm->lives[rank] = handles[next++];
    if (welcome->map)
        shm->map = welcome->map;
    else
        status = shm_map(handles[0], shm->size, join->error, &shm->map);
    close(handles[0]);
    if (status == LS_OK) shm->header = shm->map->header;
    shm->timeout_s = welcome->timeout_s;
    return status;
}

/* One try; *again: the time for it has not come. */
static ls_status knock(Shm *shm, const Join *join, int life, bool *again) {
    Hello hello = {MAGIC, VERSION, shm->rank, shm->size, join->place->timeout_s};
    Welcome welcome;
    int handles[HANDLES];
    size_t count = 0;
    *again = true;
    const int socket_ = connect_to(join);
    if (socket_ < 0) return LS_OK;
    const bool got = send_message(socket_, &hello, sizeof hello, &life, life >= 0) &&
                     wait_readable(join, socket_) &&
                     receive_message(socket_, &welcome, sizeof welcome, handles, HANDLES, &count);
    close(socket_);
    if (!got || welcome.magic != MAGIC || welcome.answer == ANSWER_LATER) return LS_OK;
    *again = false;
    if (welcome.answer == ANSWER_NO || count == 0)
        return error_set(join->error, LS_ERROR_COMM, "%s",
                         count == 0 && welcome.answer != ANSWER_NO ? "no memory came along"
                                                                   : welcome.reason);
    return enter(shm, join, &welcome, handles, count);
}

static ls_status visit(Shm *shm, const Join *join, int life) {
    for (;;) {
        bool again;
        ls_status status = knock(shm, join, life, &again);
        if (!again) return status;
        if (time_us() > join->until_us)
            return error_set(join->error, LS_ERROR_COMM,
                             "rank %d waited for %.3g s and rank 0 of %d was not there: all ranks "
                             "need the same id, on one machine, by one user",
                             shm->rank, join->place->timeout_s, shm->size);
        pause_a_little();
    }
}

ls_status shm_join(Shm *shm, const CommPlace *place, Error *error) {
    Join join = {.place = place, .error = error};
    join.until_us = time_us() + place->timeout_s * 1e6;
    if (shm->size > 1) name_address(&join);
    const int life = own_life();
    if (shm->rank > 0) {
        ls_status status = visit(shm, &join, life);
        if (life >= 0) close(life);
        return status;
    }
    Guest *guests = calloc((size_t)shm->size, sizeof *guests);
    if (!guests) {
        if (life >= 0) close(life);
        return error_memory(error, "ls_comm_create");
    }
    for (int rank = 0; rank < shm->size; rank++) guests[rank] = (Guest){.socket = -1, .life = -1};
    guests[0].life = shm->lives[0] = life;
    guests[0].process = getpid();
    ls_status status = host(shm, &join, guests);
    free(guests);
    return status;
}
