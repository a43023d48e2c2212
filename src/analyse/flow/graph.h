/* SPDX-License-Identifier: Apache-2.0
 * The data-flow graph (graph.c), its unused parts and parameters without a gradient (unused.c), and the graph
 * as text (dot.c). */
#ifndef LMI_ANALYSE_GRAPH_H
#define LMI_ANALYSE_GRAPH_H

#include "analyse/flow/flow.h"

struct lam_graph {
    lmi_arena arena;
    const lam_model *m;
    lmi_stream flow;
    lmi_vec nodes;            /* lam_node */
    lmi_vec edges;            /* lam_edge */
    int32_t *root;            /* per call: the outermost call around it */
    int32_t *of_op;           /* per operator: its node, -1 */
    int32_t *of_tensor;       /* per parameter and buffer: its node, -1 */
    int32_t *inputs;          /* per call: the node of the first argument of an outermost call, -1 */
    int32_t *outputs;         /* the same of its results */
    lmi_source *behind;       /* per operator that is a view: the source that it is a view of */
    lmi_vec unused, no_gradient; /* lmi_finding */
    const char **tensor_name; /* per parameter and buffer: "layer1.0.conv1.weight" */
};

/* Reasons that a table shows in another form. */
#define LMI_WHY_NEVER_CALLED    "it was never called"
#define LMI_WHY_OF_NEVER_CALLED "its module was never called"
#define LMI_WHY_FROZEN          "its requires_grad is False"

typedef struct lmi_finding {
    const char *path, *reason;
} lmi_finding;

/* A graph for its findings alone: it has no edges. As lam_graph_new. */
lam_status lmi_graph_found(lam_graph **out, const lam_model *m, lam_error *e);
/* Fills unused and no_gradient (unused.c). */
lam_status lmi_graph_findings(lam_graph *g, lam_error *e);

/* The units that an output depends on, one entry an operator, except through numbers that the program read.
 * `known` false: unknown. */
lam_status lmi_live_ops(const lam_model *m, bool *live, bool *known, lam_error *e);

/* The unit that is the source of entry `in` of an operator's arguments, past views. */
lmi_source lmi_graph_from(const lam_graph *g, int32_t op, int32_t in);
/* The node of a source seen from a call; -1 none. */
int32_t lmi_graph_node(const lam_graph *g, lmi_source s, int32_t call);

/* Per operator that the program called: true if a traced graph leaves it out (traced.c). */
lam_status lmi_untraced(const lam_model *m, lmi_arena *a, bool **out, lam_error *e);
/* True if the operator ran inside a torch.autograd.Function. */
bool lmi_in_function(const lam_model *m, int32_t op);

#endif
