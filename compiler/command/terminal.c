/* terminal.c: the terminal of `lockstep top`: its second screen, single keys, signals.
 *
 * Signals are let in only while we wait, so none is lost between two waits. Whatever ends the
 * command, the terminal gets back its screen, its cursor and its modes. */
#include "files.h"
#include "command.h"
#include "top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
static volatile sig_atomic_t came[COUNT(signals)];
static struct sigaction old_actions[COUNT(signals)];
static sigset_t old_mask;
static struct termios old_modes;
static bool keys_end; /* stdin has ended: there will be no more keys */

static void on_signal(int number) {
    for (size_t i = 0; i < COUNT(signals); i++)
        if (signals[i] == number) came[i] = 1;
}

static void put(const char *text, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(STDOUT_FILENO, text, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        text += wrote;
        size -= (size_t)wrote;
    }
}

static void enter(void) {
    static const char text[] = "\033[?1049h\033[?25l\033[2J"; /* second screen, no cursor */
    struct termios modes = old_modes;
    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
    put(text, sizeof text - 1);
}

static void leave(void) {
    static const char text[] = "\033[?25h\033[?1049l";
    put(text, sizeof text - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &old_modes);
}

bool terminal_open(void) {
    sigset_t ours;
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &old_modes) != 0) return false;
    sigemptyset(&ours);
    for (size_t i = 0; i < COUNT(signals); i++) sigaddset(&ours, signals[i]);
    sigprocmask(SIG_BLOCK, &ours, &old_mask);
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(signals[i], &action, &old_actions[i]);
    }
    enter();
    return true;
}

void terminal_close(void) {
    leave();
    for (size_t i = 0; i < COUNT(signals); i++) sigaction(signals[i], &old_actions[i], NULL);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
}

void terminal_size(unsigned *width, unsigned *height) {
    struct winsize size;
    *width = 80;
    *height = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
    if (size.ws_col) *width = size.ws_col;
    if (size.ws_row) *height = size.ws_row;
}

void terminal_show(const Buffer *picture) {
    put(picture->data, picture->size);
}

static bool take(int number) {
    for (size_t i = 0; i < COUNT(signals); i++) {
        if (signals[i] != number || !came[i]) continue;
        came[i] = 0;
        return true;
    }
    return false;
}

/* Stopped as by ctrl-Z: the shell sees its own terminal meanwhile. */
static void stop(void) {
    leave();
    raise(SIGSTOP);
    enter();
}

TerminalEvent terminal_wait(double time, int *key) {
    struct pollfd input = {.fd = keys_end ? -1 : STDIN_FILENO, .events = POLLIN};
    struct timespec limit = {(time_t)time, (long)((time - (double)(time_t)time) * 1e9)};
    unsigned char byte;
    if (time < 0) limit = (struct timespec){0, 0};
    int ready = ppoll(&input, 1, &limit, &old_mask);
    if (take(SIGINT) || take(SIGTERM) || take(SIGHUP)) return TERMINAL_END;
    if (take(SIGTSTP)) {
        stop();
        return TERMINAL_SIZE;
    }
    if (take(SIGWINCH)) return TERMINAL_SIZE;
    if (ready <= 0) return TERMINAL_TIME;
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got == 1) {
        *key = byte;
        return TERMINAL_KEY;
    }
    if (input.revents & (POLLHUP | POLLERR)) return TERMINAL_END; /* the terminal is gone */
    keys_end = got == 0;
    return TERMINAL_TIME;
}
