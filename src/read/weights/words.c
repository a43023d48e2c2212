/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of llama.cpp for the parts of a language model, and those of Hugging Face's transformers, by
 * gguf-py/gguf/tensor_mapping.py. Only names that mean the same in all architectures are here. */
#include "read/weights/weights.h"

#include <stdio.h>

static const struct {
    const char *gguf, *other;
} words[] = {{"attn_norm", "input_layernorm"},
             {"attn_q", "self_attn.q_proj"},
             {"attn_k", "self_attn.k_proj"},
             {"attn_v", "self_attn.v_proj"},
             {"attn_output", "self_attn.o_proj"},
             {"attn_q_norm", "self_attn.q_norm"},
             {"attn_k_norm", "self_attn.k_norm"},
             {"ffn_norm", "post_attention_layernorm"},
             {"ffn_gate", "mlp.gate_proj"},
             {"ffn_up", "mlp.up_proj"},
             {"ffn_down", "mlp.down_proj"},
             {"token_embd", "embed_tokens"},
             {"output_norm", "norm"},
             {"output", "lm_head"}};
enum { IN_BLOCKS = 11, N_WORDS = sizeof words / sizeof *words };

const char *lmi_weights_word(const char *name, char *room, size_t size) {
    static const char blocks[] = "blk.";
    char before[64] = "";
    const bool in_block = strncmp(name, blocks, sizeof blocks - 1) == 0;
    if (in_block) {
        const char *number = name + sizeof blocks - 1;
        const size_t n = strspn(number, "0123456789");
        if (n == 0 || n > 9 || number[n] != '.') return NULL;
        snprintf(before, sizeof before, "layers.%.*s.", (int)n, number);
        name = number + n + 1;
    }
    const char *dot = strchr(name, '.');
    if (!dot) return NULL;
    for (int i = in_block ? 0 : IN_BLOCKS; i < (in_block ? IN_BLOCKS : N_WORDS); i++) {
        const size_t n = strlen(words[i].gguf);
        if ((size_t)(dot - name) != n || strncmp(name, words[i].gguf, n) != 0) continue;
        const int all = snprintf(room, size, "%s%s%s", before, words[i].other, dot);
        return (size_t)all < size ? room : NULL;
    }
    return NULL;
}
