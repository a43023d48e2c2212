/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors of a file of weights are buffers: what is one beside another tensor is a parameter without
 * it. */
#include "kit/weights.h"

static void buffers_are_told_by_what_is_beside_them(void **state) {
    (void)state;
    static const struct {
        const char *list;
        int64_t params, buffers;
    } all[] = {
        {"l.scale F32 - 4; l.zero_point I64 - 8; l.weight F32 2 8", 2, 2},
        {"scale F32 - 4; zero_point I64 - 8", 0, 2},
        {"l.scale F32 - 4; l.zero_point F32 - 4", 2, 0}, /* both are learnt */
        {"l.scale F32 - 4; n.zero_point I64 - 8", 1, 1},
        {"l.upscale F32 - 4; l.upzero_point I64 - 8", 1, 1},
        {"o.eps F32 1 4; o.min_val F32 1 4; o.max_val F32 1 4", 0, 3},
        {"o.eps F32 1 4; o.min_val F32 1 4", 1, 1},
        {"l.weight_orig F32 2 8; l.weight_mask F32 2 8", 2, 2},
        {"l.weight_orig F32 2 8; l.weight_u F32 1 4; l.weight_v F32 2 8", 2, 3},
        {"l.weight_g F32 1 4; l.weight_v F32 2 8", 3, 0}, /* of a weight norm */
        {"l.weight_mask F32 2 8; l.weight F32 2 8", 4, 0},
        {"p.weight.0._u F32 1 4; p.weight.0._v F32 2 8; p.weight.original F32 2 8", 2, 3},
        {"l._orig F32 1 4; l._mask F32 1 4", 2, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_safetensors("beside.safetensors", all[i].list);
        lam_model *m = opened("beside.safetensors");
        lam_costs *c = costs_of(m);
        const lam_param_totals p = lam_costs_params(c);
        if (p.params.n != all[i].params || p.buffers.n != all[i].buffers)
            fail_msg("%s: %d, %d", all[i].list, (int)p.params.n, (int)p.buffers.n);
        assert_int_equal(lam_model_n_notes(m), all[i].buffers > 0);
        lam_costs_free(c);
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, (void *)"beside.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_told_by_what_is_beside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
