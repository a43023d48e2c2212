/* SPDX-License-Identifier: Apache-2.0
 *
 * The command, a part of lamina.h: one command line from its first word to its exit code, for a host that has
 * streams and, where it can, live models. */
#ifndef LAMINA_COMMAND_H
#define LAMINA_COMMAND_H

#include "lamina.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lam_live { /* what a live source is asked for */
    const char *target;   /* "torchvision.models:resnet18" or "path/to/file.py:Net" */
    int32_t n_inputs;
    const char *const *inputs;       /* as given to -i: "1x3x224x224", "ids=1x16:int64=arange" */
    const char *given;               /* "file.py:name" of what gives the inputs instead; NULL: the inputs */
    const char *mode;                /* "eval", "train", or NULL: as the model is */
    const char *const *build_kwargs; /* "weights=None", ...; NULL-terminated, may be NULL */
    bool ops;                        /* watch operators too */
    bool or_layers;                  /* with `ops`: where they can't be watched, layers alone and a note */
    bool backward;                   /* and those of a backward pass from the sum of the outputs */
    bool unfused;                    /* every layer runs its own forward (lam_convention_unfused) */
    bool dry;                        /* follow the shapes and compute nothing */
    bool health;                     /* look for NaN and Inf */
    bool time;                       /* tell how long it takes, over */
    int32_t repeats;                 /* so many runs; 0: as the host likes */
    bool follow;                     /* of a dry run: note when memory would be taken and given back */
    int64_t batch;                   /* the first size of every input instead of what is given; 0: as given */
    const char *dtype;               /* of floating-point parameters, buffers and inputs; NULL: as they are */
    bool memory;                     /* measure memory */
} lam_live;

typedef struct lam_script { /* a program that is to be recorded */
    const char *module;     /* "pkg.train", or NULL: argv[0] is the file */
    int32_t n_argv;
    const char *const *argv; /* the program's own arguments; without `module` its file first */
    const char *file;        /* of the recording */
    int32_t every;
    bool memory, health; /* what layers allocate is measured too; NaN and Inf are looked for */
} lam_script;

/* What the command runs in. Everything it prints goes through the two sinks. */
typedef struct lam_host {
    void *self;
    lam_sink out, err;
    bool out_is_terminal, out_is_utf8;
    int32_t width; /* of the terminal; 0 unknown */
    /* Captures a live model. On failure it may still give what was seen (*out non-NULL together with
     * LAM_FAILED). */
    lam_status (*live)(void *self, const lam_live *what, lam_model **out, lam_error *e);
    /* Text for `lamina doctor` about the live side; NULL: there is none. */
    lam_status (*doctor)(void *self, lam_sink to, lam_error *e);
    /* Runs a script, or notes that it is to be run once the command has ended; NULL: it can't. Pointers are
     * the command line's. */
    lam_status (*script)(void *self, const lam_script *what, lam_error *e);
    /* Waits for so long; anything but LAM_OK when the command is to end. NULL: the command waits itself. */
    lam_status (*wait)(void *self, int32_t milliseconds);
    lam_status (*roof)(void *self, lam_peak *out, lam_error *e); /* this machine's; NULL: not known */
} lam_host;

/* Runs one command line (argv[0] is skipped). Exit codes: 0 fine; 1 a finding; 2 usage; 3 the file or the
 * model failed (what was seen is printed first); 4 an internal error; 130 interrupted. */
LAM_API int lam_command(int argc, const char *const *argv, const lam_host *host);

#ifdef __cplusplus
}
#endif
#endif
