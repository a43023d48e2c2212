/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict in words: who, what it costs, what it is, since when; and what to do next. */
#include "report/ranks/ranks.h"

#include <math.h>

/* -- pieces -------------------------------------------------------------------------------------------- */

void lmi_put_us(lmi_buf *b, double us) {
    if (isnan(us) || us > 9e15)
        lmi_put(b, "?");
    else
        lmi_put_scaled(b, LMI_TIMES, us * 1000, &lmi_plain);
}

void lmi_put_moment(lmi_buf *b, int64_t us) {
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (us < 0) {
        lmi_put(b, "?");
        return;
    }
    const lmi_moment at = lmi_moment_of(us / 1000000);
    lmi_putf(b, "%s %d %02d:%02d", months[at.month - 1], at.day, at.hour, at.minute);
}

static void put_percent(lmi_buf *b, double share) { lmi_put_percent(b, share, 1, &lmi_plain); }

enum { MOST_NAMED = 8 };

static void put_ranks(lmi_buf *b, const lam_rank_verdict *v, const char *one, const char *many) {
    lmi_put(b, v->n_ranks == 1 ? one : many);
    for (int32_t i = 0; i < v->n_ranks && i < MOST_NAMED; i++) {
        lmi_put(b, i == 0 ? " " : i + 1 == v->n_ranks ? " and " : ", ");
        lmi_putf(b, "%d", (int)v->ranks[i]);
    }
    if (v->n_ranks > MOST_NAMED) lmi_putf(b, " and %d more", (int)(v->n_ranks - MOST_NAMED));
}

static void put_nodes(lmi_buf *b, const lam_rank_verdict *v) {
    for (int32_t i = 0; i < v->n_nodes && i < MOST_NAMED; i++) {
        if (i) lmi_put(b, i + 1 == v->n_nodes ? " and " : ", ");
        lmi_put_clean(b, v->nodes[i]);
    }
    if (v->n_nodes > MOST_NAMED) lmi_putf(b, " and %d more", (int)(v->n_nodes - MOST_NAMED));
}

void lmi_put_since(lmi_buf *b, int64_t step, int64_t us) {
    lmi_put(b, ", since step ");
    lmi_put_grouped(b, lmi_exact(step));
    if (us == LAM_NOT_KNOWN) return;
    lmi_put(b, " (");
    lmi_put_moment(b, us);
    lmi_put(b, " UTC)");
}

static void put_since(lmi_buf *b, const lam_ranks *r) {
    const lam_rank_verdict *v = &r->verdict;
    if (v->since_step == LAM_NOT_KNOWN) return;
    if (r->period.n && r->period.first == 0) {
        lmi_put(b, ", from the first recorded step on");
        return;
    }
    lmi_put_since(b, v->since_step, v->since_us);
}

static bool is_phase(const lam_rank_verdict *v, const char *phase) {
    return v->phase && strcmp(v->phase, phase) == 0;
}

/* -- the verdict --------------------------------------------------------------------------------------- */

/* "without it a step would take 13 % less (612 ms -> 532 ms)" */
static void put_cost(lmi_buf *b, const lam_rank_verdict *v, bool one) {
    lmi_putf(b, ": without %s a step would take ", one ? "it" : "them");
    put_percent(b, v->gain);
    lmi_put(b, " less (");
    lmi_put_us(b, v->step_us);
    lmi_put(b, " -> ");
    lmi_put_us(b, v->without_us);
    lmi_put(b, "). ");
}

static void put_cause(lmi_buf *b, const lam_ranks *r, bool one) {
    const lam_rank_verdict *v = &r->verdict;
    const bool waits = is_phase(v, "input");
    if (!v->phase) {
        lmi_put(b, one ? "Its own work takes " : "Their own work takes ");
        put_percent(b, v->late);
        lmi_put(b, " longer than that of the others, in no one phase most of it");
        return;
    }
    lmi_put(b, v->n_nodes ? (v->n_nodes == 1 ? "Its ranks " : "Their ranks ") : one ? "It " : "They ");
    const bool single = one && !v->n_nodes;
    lmi_put(b, waits ? (single ? "waits " : "wait ") : single ? "takes " : "take ");
    lmi_put_us(b, v->excess_us);
    lmi_put(b, waits                      ? " longer for input than the others"
               : is_phase(v, "compute")   ? " longer than the others in forward and backward"
               : is_phase(v, "h2d")       ? " longer to copy the input to the device than the others"
               : is_phase(v, "optimizer") ? " longer in the optimizer than the others"
                                          : " longer than the others outside of input, model and optimizer");
    if (!is_phase(v, "compute")) return;
    if (v->layer) {
        lmi_put(b, ", most of it in ");
        lmi_put_clean(b, v->layer);
    } else if (r->layers.n) {
        lmi_put(b, ", in no one layer most of it");
    }
}

static void say_slow(const lam_ranks *r, lmi_buf *b) {
    const lam_rank_verdict *v = &r->verdict;
    const bool nodes = v->kind == LAM_RANKS_SLOW_NODE, one = (nodes ? v->n_nodes : v->n_ranks) == 1;
    if (nodes) {
        lmi_put(b, v->n_nodes == 1 ? "Node " : "Nodes ");
        put_nodes(b, v);
    } else {
        put_ranks(b, v, "Rank", "Ranks");
    }
    lmi_put(b, one ? " slows all" : " slow all");
    put_cost(b, v, one);
    put_cause(b, r, one);
    put_since(b, r);
    lmi_putc(b, '.');
}

static void say_link(const lam_ranks *r, lmi_buf *b) {
    lmi_put(b, "The links of ");
    put_nodes(b, &r->verdict);
    lmi_put(b, " slow all: with the transfer of the other groups a step would take ");
    put_percent(b, r->verdict.gain);
    lmi_put(b, " less. Inside this group the last to arrive still waits ");
    lmi_put_us(b, r->verdict.excess_us);
    lmi_put(b, " longer for data");
    put_since(b, r);
    lmi_putc(b, '.');
}

static void say_died(const lam_ranks *r, lmi_buf *b) {
    const lam_rank_verdict *v = &r->verdict;
    put_ranks(b, v, "Rank", "Ranks");
    lmi_put(b, " ended first, and the others could not go on without ");
    lmi_put(b, v->n_ranks == 1 ? "it" : "them");
    const int32_t col = lmi_ranks_col(r, v->ranks[0]);
    const lmi_fact *f = col < 0 ? NULL : r->ranks[col].fact;
    if (f && f->ended_by) {
        lmi_put(b, ": by ");
        lmi_put_clean(b, f->ended_by);
    } else {
        lmi_put(b, ": without a word");
    }
    if (f) {
        lmi_put(b, ", on ");
        lmi_put_clean(b, lmi_ranks_node_name(r, f->node));
    }
    if (f && f->seen != LAM_NOT_KNOWN) {
        lmi_put(b, ", last seen ");
        lmi_put_moment(b, f->seen);
        lmi_put(b, " UTC");
    }
    if (f && f->ran_last) {
        lmi_put(b, "; it ran last ");
        lmi_put_clean(b, f->ran_last);
    }
    lmi_putc(b, '.');
}

/* Of verdicts without a name: before the share, and after it. */
static const struct {
    const char *before, *after;
} words[LAM_N_RANK_KINDS] = {
    [LAM_RANKS_PROCESSOR] = {"Ranks wait for a processor, which other threads or programs use: up to ",
                             " of a step"},
    [LAM_RANKS_NETWORK] = {"The network takes ",
                           " of a step, for all ranks alike: no rank is late, the transfer is long"},
    [LAM_RANKS_INPUT] = {"All ranks wait for their input: ", " of a step"},
    [LAM_RANKS_SLOWER] = {"All ranks became slower: a step takes ", " longer than before"},
    [LAM_RANKS_JITTER] = {"", " of a step goes by until the last rank is there, another one each time"},
    [LAM_RANKS_STAGES] = {"One stage has more to do than the others: ",
                          " of a step more than the middle one"},
};

void lmi_ranks_say(const lam_ranks *r, lmi_buf *b) {
    const lam_rank_verdict *v = &r->verdict;
    switch (v->kind) {
    case LAM_RANKS_SLOW_RANK:
    case LAM_RANKS_SLOW_NODE: say_slow(r, b); return;
    case LAM_RANKS_SLOW_LINK: say_link(r, b); return;
    case LAM_RANKS_DIED: say_died(r, b); return;
    case LAM_RANKS_UNEVEN:
        lmi_putf(b,
                 "%d of %d ranks are slower than the others: two kinds of machine or of work, so none is "
                 "named.",
                 (int)v->n_watch, (int)r->n_ranks);
        return;
    case LAM_RANKS_NONE:
        if (v->abstains) {
            lmi_put(b, "No rank is named: ");
            lmi_putf(b, "%s.", v->abstains);
        } else {
            lmi_put(b, "Nothing stands out: no rank, node or link slows the others.");
        }
        return;
    default: break;
    }
    lmi_put(b, words[v->kind].before);
    put_percent(b, v->gain);
    if (v->kind == LAM_RANKS_JITTER && r->alone_rank >= 0) {
        lmi_putf(b, " of a step goes by until the last rank is there, most of it for rank %d, in ",
                 (int)r->alone_rank);
        lmi_put_grouped(b, lmi_count_of(r->alone_steps));
        lmi_put(b, " of ");
        lmi_put_grouped(b, lmi_count_of(r->n_steps));
        lmi_put(b, " recorded steps.");
        return;
    }
    lmi_put(b, words[v->kind].after);
    if (v->kind == LAM_RANKS_PROCESSOR) lmi_putf(b, ", rank %d", (int)r->starved_rank);
    put_since(b, r);
    lmi_putc(b, '.');
}

/* -- what to do next ----------------------------------------------------------------------------------- */

static const char *node_of(const lam_ranks *r) {
    const lam_rank_verdict *v = &r->verdict;
    if (v->n_nodes) return v->nodes[0];
    const int32_t col = v->n_ranks ? lmi_ranks_col(r, v->ranks[0]) : -1;
    return col < 0 || r->ranks[col].node < 0 ? "that node" : lmi_ranks_node_name(r, r->ranks[col].node);
}

static void next_of_slow(const lam_ranks *r, lmi_buf *b) {
    const lam_rank_verdict *v = &r->verdict;
    if (is_phase(v, "input"))
        lmi_put(b, "the disk or mount, and num_workers, on ");
    else if (v->layer)
        lmi_put(b, "what this layer gets there that it does not elsewhere (its batch, its experts); then the "
                   "processor or GPU of ");
    else if (is_phase(v, "h2d"))
        lmi_put(b, "pin_memory of its loader, and the PCIe link (nvidia-smi -q -d PERFORMANCE) of ");
    else if (is_phase(v, "compute") || is_phase(v, "optimizer"))
        lmi_put(
            b,
            "other programs, and the clocks (nvidia-smi -q -d CLOCK,TEMPERATURE,PERFORMANCE); then exchange "
            "the processor or GPU of ");
    else
        lmi_put(b, "what else runs (logging, checkpoints, other programs) on ");
    lmi_put_clean(b, node_of(r));
}

void lmi_ranks_say_next(const lam_ranks *r, lmi_buf *b) {
    static const char *const next[LAM_N_RANK_KINDS] = {
        [LAM_RANKS_SLOW_LINK] = "the cables and switch ports between these nodes; nccl-tests on them alone",
        [LAM_RANKS_DIED] =
            "the end of its own log, and of the kernel's on that node (dmesg: out of memory, Xid)",
        [LAM_RANKS_UNEVEN] = "the types and clocks of the machines, and how the work is divided",
        [LAM_RANKS_PROCESSOR] = "other programs there (top), a container's limit (cpu.max), OMP_NUM_THREADS "
                                "and num_workers: fewer "
                                "ranks, threads or programs than processors",
        [LAM_RANKS_NETWORK] = "nccl-tests on these nodes; what else uses the network; larger buckets",
        [LAM_RANKS_INPUT] =
            "more num_workers, prefetch_factor, or a faster disk; it is the data, not the model",
        [LAM_RANKS_SLOWER] =
            "what changed then: longer inputs, a new phase of the program, the machine's clocks",
        [LAM_RANKS_JITTER] = "gc.disable(), and gc.collect() at equal steps of all ranks; lengths of batches",
        [LAM_RANKS_STAGES] = "move layers from the longest stage to the others",
    };
    const lam_rank_kind k = r->verdict.kind;
    if (k == LAM_RANKS_SLOW_RANK || k == LAM_RANKS_SLOW_NODE)
        next_of_slow(r, b);
    else if (k == LAM_RANKS_JITTER && r->alone_rank >= 0)
        lmi_putf(b, "what rank %d alone does at times: checkpoints, evaluation, logs", (int)r->alone_rank);
    else if (k == LAM_RANKS_NONE && r->verdict.abstains)
        lmi_put(b, r->n_steps < LMI_LEAST_STEPS
                       ? "record more steps; --every of lamina run says how many"
                       : "record it anew if the files are of an older version, which has no phases; they are "
                         "what torch's DataLoader, optimizers and collectives tell");
    else if (next[k])
        lmi_put(b, next[k]);
}
