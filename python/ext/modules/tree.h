/* SPDX-License-Identifier: Apache-2.0
 * tree: the modules under a root, and a model of what a capture saw of them. */
#ifndef LMX_TREE_H
#define LMX_TREE_H

#include "observe/open_capture.h"

/* Walks the tree under `root` in registration order. The tree holds references to its objects. False with an
 * exception. */
bool lmx_walk(lmx_state *st, lmx_tree *tree, PyObject *root);
bool lmx_tree_copy(lmx_tree *to, const lmx_tree *from); /* into one that is empty. False with an exception */
void lmx_tree_free(lmx_tree *tree);
int lmx_tree_visit(lmx_tree *tree, visitproc visit, void *arg);
/* Calls `each(self, name, tensor)` for what every module registers under `kind`, st->n__parameters or
 * st->n__buffers. False with an exception, or if `each` returned false. */
bool lmx_each_owned(lmx_state *st, const lmx_tree *tree, PyObject *kind,
                    bool (*each)(void *self, PyObject *name, PyObject *tensor), void *self);
/* The dotted path of `name` under place `parent`, a new str; of the place itself if `name` is NULL. */
PyObject *lmx_path(const lmx_tree *tree, int32_t parent, PyObject *name);
/* The parameters that FSDP2 gathers for the modules of a tree, a new list: a gathered tensor, its shard, and
 * so on. NULL with an exception. (gathered.c) */
PyObject *lmx_gathered(lmx_state *st, const lmx_tree *tree);
/* Gives each module that FSDP2 shards its shards again. FSDP2 notes elsewhere which parameters it has
 * gathered, so if they alone were restored, its next forward would gather none. False with an exception, the
 * first one; the other modules have theirs. (gathered.c) */
bool lmx_reshard(lmx_state *st, const lmx_tree *tree);
/* A note on the layers that the run added to the model; NULL, with an exception or without one: none of them
 * was called. */
PyObject *lmx_added_layers(lmx_capture *c);
/* Builds the capture's model. `before`, or NULL, is called once before user code runs. False with an
 * exception. */
bool lmx_describe_model(lmx_capture *c, PyObject *before, lam_model **out);
/* Start describing the modules of the capture's tree before the run, and describe one; given up if user code
 * would run. False with an exception. */
bool lmx_early_begin(lmx_capture *c);
bool lmx_early_module(lmx_capture *c, int32_t node);
void lmx_early_drop(lmx_capture *c);
int lmx_early_visit(const lmx_capture *c, visitproc visit, void *arg);
/* Builds a model of an open capture so far, of names and calls alone; `push` adds to it. False with an
 * exception. */
bool lmx_describe_so_far(lmx_capture *c, lam_status (*push)(void *self, lam_builder *b, lam_error *e),
                         void *self, lam_model **out);

#endif
