/* SPDX-License-Identifier: Apache-2.0
 *
 * The command, a part of lamina.h: runs one command line for a host that has output streams and, optionally,
 * live models. */
#ifndef LAMINA_COMMAND_H
#define LAMINA_COMMAND_H

#include "lamina_arrow.h"
#include "lamina_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LAM_LIVE_WORDS = 128 }; /* the most of one list */

/* A request to capture a live model, field by field. FLAG is a bool. WORD is a text; NULL: not given. WORDS
 * are texts with NULL behind the last one. COUNT is a whole number from 1; 0: not given. A host may pass all
 * on by their names. */
#define LAM_LIVE(FLAG, WORD, WORDS, COUNT)                                                                   \
    WORD(target)    /* "torchvision.models:resnet18" or "path/to/file.py:Net" */                             \
    WORDS(inputs)   /* as given to -i: "1x3x224x224", "ids=1x16:int64=arange" */                             \
    WORD(given)     /* "file.py:name" that supplies the inputs; NULL: `inputs` */                            \
    COUNT(batch)    /* replaces the first size of every input; 0: keep the sizes */                          \
    WORDS(build)    /* keyword arguments for what makes the model: "weights=None", ... */                    \
    WORD(mode)      /* "eval", "train", or NULL: keep the model's mode */                                    \
    WORD(dtype)     /* of floating-point parameters, buffers and inputs; NULL: keep theirs */                \
    FLAG(ops)       /* watch operators too */                                                                \
    FLAG(or_layers) /* with `ops`: if they can't be watched, layers alone and a note */                      \
    FLAG(unfused)   /* every layer runs its own forward (lam_convention_unfused) */                          \
    FLAG(backward)  /* also run a backward pass from the sum of the outputs */                               \
    FLAG(dry)       /* compute shapes and no values */                                                       \
    FLAG(follow)    /* with `dry`: note when memory would be allocated and freed */                          \
    WORD(optimizer) /* with `follow` and `backward`: what makes the step that follows; "": the default */    \
    FLAG(health)    /* check for NaN and Inf */                                                              \
    FLAG(memory)    /* measure memory */                                                                     \
    FLAG(time)      /* measure times over `repeats` runs */                                                  \
    COUNT(repeats)  /* 0: the host chooses */                                                                \
    /* A language model is to generate: "sample" decode steps of those that are asked for, "every" one of    \
     * them, or "lengths": prompts of few and of many tokens, or "own": of few and of as many as the model   \
     * says that it takes. "forward": it is called once on a prompt, unless `inputs` or `given` give its     \
     * input. NULL: it is called once. */                                                                    \
    WORD(tokens)                                                                                             \
    COUNT(prompt)  /* tokens of the prompt; 0: as the host likes, as the next */                             \
    COUNT(fresh)   /* new tokens of each sequence */                                                         \
    COUNT(longest) /* with "lengths": the most tokens of a prompt; 0: as many as ever */                     \
    /* The option that a dry run can't answer, as "--time". NULL: none, so a model that is larger than the   \
     * memory may be followed as in a dry run, if its provenance then tells why as "dry_because". */         \
    WORD(needs_run)

#define LAM_LIVE_FLAG(name)  bool name;
#define LAM_LIVE_WORD(name)  const char *name;
#define LAM_LIVE_LIST(name)  const char *name[LAM_LIVE_WORDS + 1];
#define LAM_LIVE_COUNT(name) int32_t name;
typedef struct lam_live {
    LAM_LIVE(LAM_LIVE_FLAG, LAM_LIVE_WORD, LAM_LIVE_LIST, LAM_LIVE_COUNT)
} lam_live;

typedef struct lam_script { /* a request to run and record a program */
    const char *module;     /* "pkg.train", or NULL: argv[0] is the file */
    int32_t n_argv;
    const char *const *argv; /* the program's arguments; without `module`, its file comes first */
    const char *file;        /* the recording's file */
    int32_t every;           /* record one in `every` steps; or LAM_THINNING */
    bool memory, health;     /* also measure the memory of layers; check for NaN and Inf */
    const char *job;         /* as in lam_run_info; NULL: the one of the launcher */
    const char *peak;        /* of the device, for lam_peak_flops; NULL: as the table of peaks has it */
} lam_script;

/* Receives one check from the configuration file `file` of a project, as arguments of `lamina check`. */
typedef lam_status (*lam_take_check)(void *to, const char *file, int argc, const char *const *argv);

typedef struct lam_merged { /* files: of the run's folder, those left as they were, and of recordings */
    int32_t written, kept, left_out;
} lam_merged;

/* The environment of the command. All output goes to the two sinks. */
typedef struct lam_host {
    void *self;
    lam_sink out, err;
    bool out_is_terminal, out_is_utf8;
    bool err_is_terminal; /* then long work shows there how far it is */
    int32_t width;        /* of the terminal, in columns; 0 unknown */
    /* The height in lines, if the terminal is the process's standard output: a higher output is shown by a
     * pager, which writes there directly. 0: no pager */
    int32_t height;
    /* Captures a live model. If the model fails, it may return LAM_FAILED and the part that ran in *out. */
    lam_status (*live)(void *self, const lam_live *what, lam_model **out, lam_error *e);
    /* Writes the text of `lamina doctor` about live models; NULL: none. */
    lam_status (*doctor)(void *self, lam_sink to, lam_error *e);
    /* Reads the folder of a run of many ranks, and reaches its verdict; then it looks at `look`, unless that
     * is NULL. NULL: not supported. */
    lam_status (*ranks)(void *self, const char *folder, const lam_ranks_look *look, lam_ranks **out,
                        lam_error *e);
    /* Writes `n` recordings into the folder of a run, after errors for those that it left out; with no
     * recordings, makes the files of the folder fewer. NULL: not supported. */
    lam_status (*merge)(void *self, int32_t n, const char *const *recordings, const char *folder,
                        lam_merged *out, lam_error *e);
    /* The rows of a query over the tables of the folder of a run; NULL: not supported. */
    lam_status (*sql)(void *self, const char *folder, const char *query, lam_table **out, lam_error *e);
    /* Runs a script, now or after the command has ended; NULL: not supported. Pointers are borrowed from the
     * command line. */
    lam_status (*script)(void *self, const lam_script *what, lam_error *e);
    /* Waits; any status but LAM_OK ends the command. NULL: the command waits itself. Long work calls it with
     * 0 now and then. */
    lam_status (*wait)(void *self, int32_t milliseconds);
    /* This machine's peak, for numbers of type `dtype` (NULL: float32) on a device, by its c10 type number
     * (-1: the processor). NULL: unknown */
    lam_status (*roof)(void *self, const char *dtype, int32_t device, lam_peak *out, lam_error *e);
    lam_layout lay_out;                                          /* as in lam_report_options */
    /* Adds the rules that the code of a model has registered to `to`. It is called after each run of a model;
     * `to` is valid until the command ends or `rules` is called again. NULL: none */
    lam_status (*rules)(void *self, lam_rules *to, lam_error *e);
    /* As in lam_cost_options, for those rules; NULL: none */
    bool (*ask)(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                lam_count out[LAM_N_METRICS]);
    /* Calls `take` for each check of the project that the current folder belongs to. LAM_USAGE: it has none,
     * or its file is malformed. NULL: not supported */
    lam_status (*checks)(void *self, lam_take_check take, void *to, lam_error *e);
    /* The process ends with this command. If the command line names files of models alone, it may then be
     * confined for good, before they are read: it opens no other files, has no network and starts no
     * programs, as far as the system can do that. */
    bool may_confine;
} lam_host;

/* Runs one command line (argv[0] is skipped) and returns its exit code: 0 success; 1 a finding; 2 wrong
 * usage; 3 the file or the model failed (the part that ran is printed first); 4 an internal error; 130
 * interrupted. */
LAM_API int lam_command(int argc, const char *const *argv, const lam_host *host);

#ifdef __cplusplus
}
#endif
#endif
