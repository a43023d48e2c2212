/* SPDX-License-Identifier: Apache-2.0
 * tree: the modules under a root, and a model of what a capture saw of them. */
#ifndef LMX_TREE_H
#define LMX_TREE_H

#include "observe/capture.h"

/* Walks the tree under `root` in registration order. The tree holds what it names. False with an
 * exception. */
bool lmx_walk(lmx_state *st, lmx_tree *tree, PyObject *root);
bool lmx_tree_copy(lmx_tree *to, const lmx_tree *from); /* into one that is empty. False with an exception */
void lmx_tree_free(lmx_tree *tree);
int lmx_tree_visit(lmx_tree *tree, visitproc visit, void *arg);
/* The dotted path of `name` under place `parent`, a new str. */
PyObject *lmx_path(const lmx_tree *tree, int32_t parent, PyObject *name);
/* The model that the capture saw. `before`, or NULL, is called once before code of the user's runs. False
 * with an exception. */
bool lmx_describe_model(lmx_capture *c, PyObject *before, lam_model **out);
/* The modules in the capture's tree are about to be described before the run, one by one (the second), as far
 * as nothing of the user's runs for it: else that is given up. False with an exception. */
bool lmx_early_begin(lmx_capture *c);
bool lmx_early_module(lmx_capture *c, int32_t node);
void lmx_early_drop(lmx_capture *c);
int lmx_early_visit(const lmx_capture *c, visitproc visit, void *arg);
/* What an open capture saw so far, names and calls alone, and what `push` adds to that. False with an
 * exception. */
bool lmx_describe_so_far(lmx_capture *c, lam_status (*push)(void *self, lam_builder *b, lam_error *e),
                         void *self, lam_model **out);

#endif
