/* main.c: charlm, a small GPT on the characters of a text. The model's arithmetic is charlm.step,
 * its matrix products are a BLAS library's, and a training step is one graph. */
#include "charlm.h"

#include <stdlib.h>
#include <string.h>

/* What can be wrong with the arguments is found before anything is compiled. */
static bool read_input(Options *options, const Ranks *ranks, Text *text) {
    if (options->resume && !checkpoint_options(options->resume, options)) return false;
    if (options->save && !file_possible(options->save)) return false;
    if (options->curve && !file_possible(options->curve)) return false;
    if (options->trace && !file_possible(options->trace)) return false;
    if (!options_divide(options, ranks->size, ranks->launched)) return false;
    if (!options_agree(options) || !text_read(options->text, text)) return false;
    uint8_t *letters = malloc(strlen(options->prompt) + 1);
    if (!letters) return fail("out of host memory");
    const bool known = text_encode(text, options->prompt, letters);
    free(letters);
    if (*options->prompt == 0) return fail("--prompt is empty; a sample begins with something");
    return known || fail("--prompt has a character that the text lacks");
}

/* What a process of the run is given. */
typedef struct Work {
    const Options *options;
    const Text *text;
} Work;

static bool work(Options *options, const Text *text, Machine *machine, Model *model,
                 Checkpoint *checkpoint) {
    if (options->slots && options->micro == 0) options->micro = 1; /* slots are what divides */
    if (!model_open(model, machine, options, text) || !accumulate(model, options)) return false;
    if (!options->resume) model_initialise(model);
    if (options->resume && !checkpoint_read(options->resume, model, checkpoint)) return false;
    if (machine->failed) return false;
    if (options->utilisation) return utilisation(model);
    if (!train(model, checkpoint)) return false;
    return options->sample == 0 || ls_comm_rank(machine->comm) > 0 || sample(model);
}

static int run_rank(const Ranks *ranks, void *what) {
    const Work *given = what;
    Options options = *given->options;
    Machine machine;
    Model model = {0};
    Checkpoint checkpoint = {0};
    bool ok = machine_open(&machine, &options, ranks);
    ok = ok && work(&options, given->text, &machine, &model, &checkpoint);
    if (!ok) ls_comm_abort(machine.comm, "it ended with an error of its own");
    const bool device = machine.failed;
    history_close(&checkpoint.history);
    model_close(&model);
    machine_close(&machine);
    return ok ? 0 : (device ? DEVICE_FAILED : WRONG_INPUT);
}

int main(int count, char **arguments) {
    Options options;
    Text text = {0};
    const int status = options_read(&options, count, arguments);
    if (status) return status < 0 ? 0 : status;
    Ranks ranks;
    int ended = WRONG_INPUT;
    if (ranks_find(&options, &ranks) && read_input(&options, &ranks, &text))
        ended = ranks_run(&ranks, run_rank, &(Work){&options, &text});
    text_close(&text);
    return ended;
}
