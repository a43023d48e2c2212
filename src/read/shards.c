/* SPDX-License-Identifier: Apache-2.0
 *
 * Files beside another: the shards of an index, config.json and modules.json, the model file of a folder. An
 * index is as little trusted as any file: it names only files of its own folder, and these are read as
 * weights or not at all. */
#include "base/system.h"
#include "read/gguf/gguf.h"
#include "read/read.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_INDEX = 1 << 28, MOST_CONFIG = 1 << 24, DEEPEST = 64, MOST_FILES = 10000, MOST_PARTS = 100 };

char *lmi_beside(const char *path, const char *name) {
    const char *end = strrchr(path, '/');
    const size_t n = end ? (size_t)(end + 1 - path) : 0;
    char *out = malloc(n + strlen(name) + 1);
    if (!out) return NULL;
    memcpy(out, path, n);
    strcpy(out + n, name);
    return out;
}

/* -- an index -------------------------------------------------------------------------------------------- */

typedef struct indexing {
    lmi_tensors *t;
    const lmi_bytes *index;
    lmi_json j;
    lmi_map seen; /* names of shards */
    int32_t n_files;
    lmi_format format; /* of the last shard */
    lam_error *e;
} indexing;

static lam_status wrong(const indexing *x, uint32_t at, const char *what) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_json_put_path(&x->j, at, &path);
    lam_status s = lmi_fail_at(x->e, LAM_SYNTAX, (int64_t)x->j.v[at].at, x->index->name,
                               "%.200s %s, at byte %u", lmi_buf_text(&path), what, (unsigned)x->j.v[at].at);
    lmi_buf_free(&path);
    return s;
}

static bool is_plain_name(const char *name) {
    return *name && !strpbrk(name, "/\\:") && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static lam_status add_shard(indexing *x, uint32_t at) {
    const char *name = lmi_json_as_text(&x->j, at);
    lmi_bytes shard;
    lmi_format format = LMI_NO_FORMAT;
    if (!name || !is_plain_name(name)) return wrong(x, at, "is no name of a file in the folder of the index");
    if (lmi_map_get(&x->seen, name) >= 0) return LAM_OK;
    LAM_TRY(lmi_map_put(&x->seen, name, 0, x->e));
    char *path = lmi_beside(x->index->name, name);
    if (!path) return lmi_nomem(x->e);
    lam_status s = lmi_bytes_open(&shard, path, x->e);
    if (s == LAM_OK) {
        x->t->size += shard.size;
        x->n_files++;
        s = lmi_format_of(&shard, &format, x->e);
        x->format = format;
        if (s == LAM_OK) s = lmi_tensors_in(x->t, &shard, x->e);
        if (s == LAM_OK) s = lmi_add_weights(x->t, &shard, format, x->e);
        lmi_bytes_close(&shard);
    }
    free(path);
    return s;
}

/* An index has the number of bytes of all tensors, too. */
static lam_status note_size(indexing *x, uint32_t map) {
    const uint32_t meta = lmi_json_get(&x->j, LMI_JSON_ROOT, "metadata");
    double stated = 0;
    int64_t all = 0;
    if (!lmi_json_as_real(&x->j, lmi_json_get(&x->j, meta, "total_size"), &stated)) return LAM_OK;
    LMI_JSON_NAMES(&x->j, map, name) {
        const int32_t i = lmi_tensors_find(x->t, lmi_json_as_text(&x->j, name));
        const lmi_stored_tensor *one = lmi_tensors_at(x->t, i);
        if (one->same >= 0) continue;
        if (one->bytes < 0 || lmi_add_over(all, one->bytes, &all)) return LAM_OK; /* unknown */
    }
    if (stated == (double)all) return LAM_OK;
    return lmi_tensors_note(x->t, x->e, "the index says that its tensors take %.0f bytes, and they take %lld",
                            stated, (long long)all);
}

static lam_status add_shards(indexing *x) {
    const uint32_t map = lmi_json_get(&x->j, LMI_JSON_ROOT, "weight_map");
    const int32_t named = (int32_t)lmi_json_size(&x->j, map);
    if (lmi_json_is(&x->j, map) != LMI_JSON_OBJECT)
        return wrong(x, map ? map : LMI_JSON_ROOT, "is no \"weight_map\"");
    LAM_TRY(lmi_json_unique(&x->j, LMI_JSON_ROOT, x->index->name, x->e));
    LAM_TRY(lmi_json_unique(&x->j, map, x->index->name, x->e));
    LMI_JSON_NAMES(&x->j, map, name) LAM_TRY(add_shard(x, name + 1));
    LMI_JSON_NAMES(&x->j, map, name)
    if (lmi_tensors_find(x->t, lmi_json_as_text(&x->j, name)) < 0)
        return wrong(x, name + 1, "does not have the tensor of this name");
    LAM_TRY(note_size(x, map));
    const int32_t more = lmi_tensors_n(x->t) - named;
    if (more > 0)
        return lmi_tensors_note(x->t, x->e, "%d tensor%s of the shards %s not in the index", (int)more,
                                more == 1 ? "" : "s", more == 1 ? "is" : "are");
    return LAM_OK;
}

lam_status lmi_add_index(lmi_tensors *t, const lmi_bytes *index, int32_t *n_files, const char **format,
                         lam_error *e) {
    static const lmi_json_limits limits = {.depth = DEEPEST, .size = MOST_INDEX};
    indexing x = {.t = t, .index = index, .e = e};
    char *text = NULL;
    size_t n = 0;
    LAM_TRY(lmi_bytes_all(index, MOST_INDEX, &text, &n, e));
    lam_status s = lmi_json_read(&x.j, text, n, &limits, index->name, e);
    if (s == LAM_OK) {
        lmi_map_init(&x.seen);
        s = add_shards(&x);
        lmi_map_free(&x.seen);
        lmi_json_free(&x.j);
    }
    free(text);
    *n_files = x.n_files;
    *format = x.format == LMI_SAFETENSORS ? "safetensors" : "checkpoint";
    return s;
}

/* -- JSON beside a file ---------------------------------------------------------------------------------- */

/* Takes what the JSON tells, from a file of this path. */
typedef lam_status take_json(lmi_tensors *t, const lmi_json *j, const char *path, lam_error *e);

static lam_status take_file(lmi_tensors *t, const lmi_bytes *file, const char *name, take_json *take,
                            lam_error *e) {
    static const lmi_json_limits limits = {.depth = DEEPEST, .size = MOST_CONFIG};
    char *text = NULL;
    size_t n = 0;
    lmi_json j;
    lam_error why = {.at = -1};
    lam_status s = lmi_bytes_all(file, MOST_CONFIG, &text, &n, &why);
    if (s == LAM_OK) s = lmi_json_read(&j, text, n, &limits, file->name, &why);
    if (s == LAM_OK) {
        s = take(t, &j, file->name, e);
        lmi_json_free(&j);
    } else if (s != LAM_NOMEM) {
        s = lmi_tensors_note(t, e, "%s beside it is not used: %.300s", name, why.text);
    } else {
        lmi_nomem(e);
    }
    free(text);
    return s;
}

static lam_status add_beside(lmi_tensors *t, const char *path, const char *name, take_json *take,
                             lam_error *e) {
    char *beside = lmi_beside(path, name);
    lmi_bytes file;
    if (!beside) return lmi_nomem(e);
    lam_status s = LAM_OK;
    if (lmi_bytes_open(&file, beside, NULL) == LAM_OK) {
        s = take_file(t, &file, name, take, e);
        lmi_bytes_close(&file);
    }
    free(beside);
    return s;
}

static lam_status take_config(lmi_tensors *t, const lmi_json *j, const char *path, lam_error *e) {
    (void)path;
    return lmi_tensors_config(t, j, e);
}

/* -- modules.json: the parts of a model of sentence-transformers ----------------------------------------- */

/* Whether a folder beside a file has weights, by the names that are given to them. Nothing of it is opened: a
 * process that is confined could not, and would tell another table. */
static lam_status has_weights(const char *path, const char *folder, bool *has, lam_error *e) {
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    struct stat st;
    *has = false;
    for (size_t i = 0; !*has && i < sizeof files / sizeof *files; i++) {
        lmi_buf name;
        lmi_buf_init(&name);
        lmi_putf(&name, "%s/%s", folder, files[i]);
        lam_status s = lmi_buf_status(&name, e);
        char *file = s == LAM_OK ? lmi_beside(path, lmi_buf_text(&name)) : NULL;
        lmi_buf_free(&name);
        if (s == LAM_OK && !file) s = lmi_nomem(e);
        LAM_TRY(s);
        *has = stat(file, &st) == 0 && S_ISREG(st.st_mode);
        free(file);
    }
    return LAM_OK;
}

/* Puts the names of the folders, each once, of at most `MOST_PARTS` parts. */
static lam_status put_parts(const lmi_json *j, const char *path, lmi_map *seen, lmi_buf *to, lam_error *e) {
    int parts = 0;
    LMI_JSON_EACH(j, LMI_JSON_ROOT, i) {
        const char *name = lmi_json_as_text(j, lmi_json_get(j, i, "path"));
        bool has = false;
        if (++parts > MOST_PARTS) return LAM_OK;
        if (!name || !is_plain_name(name) || lmi_map_get(seen, name) >= 0) continue;
        LAM_TRY(lmi_map_put(seen, name, 0, e));
        LAM_TRY(has_weights(path, name, &has, e));
        if (!has) continue;
        lmi_put(to, to->n ? ", " : "");
        lmi_put_clean(to, name);
    }
    return LAM_OK;
}

static lam_status take_modules(lmi_tensors *t, const lmi_json *j, const char *path, lam_error *e) {
    lmi_map seen;
    lmi_buf names;
    lmi_map_init(&seen);
    lmi_buf_init(&names);
    lam_status s = put_parts(j, path, &seen, &names, e);
    if (s == LAM_OK) s = lmi_buf_status(&names, e);
    if (s == LAM_OK && names.n)
        s = lmi_tensors_note(t, e, "modules.json names folders whose weights are not in the table: %.300s",
                             lmi_buf_text(&names));
    lmi_buf_free(&names);
    lmi_map_free(&seen);
    return s;
}

lam_status lmi_add_config(lmi_tensors *t, const char *path, lam_error *e) {
    LAM_TRY(add_beside(t, path, "config.json", take_config, e));
    return add_beside(t, path, "modules.json", take_modules, e);
}

/* -- a folder -------------------------------------------------------------------------------------------- */

/* What a folder has of each format: the first by name of its files, and how many there are. */
typedef struct held {
    lmi_arena arena;
    const char *name[LMI_FOLDER];
    int32_t n[LMI_FOLDER];
    bool sharded;        /* it has the description that torch.distributed.checkpoint writes */
    lam_error unread;    /* of the first by name of the files that can't be read */
    int64_t unread_size; /* bytes of the largest of these */
    lmi_vec folders;     /* const char *: those in it */
} held;

static void held_init(held *h) {
    *h = (held){.sharded = false};
    lmi_arena_init(&h->arena, UINT64_MAX);
    lmi_vec_init(&h->folders, sizeof(const char *));
}

static void held_free(held *h) {
    lmi_vec_free(&h->folders);
    lmi_arena_free(&h->arena);
}

static lam_status format_at(const char *path, lmi_format *format, lam_error *e) {
    lmi_bytes file;
    LAM_TRY(lmi_bytes_open(&file, path, e));
    lam_status s = lmi_format_of(&file, format, e);
    lmi_bytes_close(&file);
    return s;
}

static bool is_before(const char *path, const char *first) { return !first || strcmp(path, first) < 0; }

static lam_status look_at(held *h, const char *folder, const char *name, lam_error *e) {
    lmi_format format = LMI_NO_FORMAT;
    lam_error why = {.at = -1};
    char *path = lmi_alloc(&h->arena, strlen(folder) + strlen(name) + 2, 1);
    if (!path) return lmi_nomem(e);
    sprintf(path, "%s/%s", folder, name);
    lam_status s = format_at(path, &format, &why);
    if (s == LAM_NOMEM) return lmi_nomem(e);
    if (s == LAM_IO && lmi_is_folder(path)) return lmi_vec_put(&h->folders, &path, e);
    struct stat st;
    if (s == LAM_IO && stat(path, &st) == 0 && st.st_size > h->unread_size) h->unread_size = st.st_size;
    if (s == LAM_IO && is_before(why.where, h->unread.status == LAM_OK ? NULL : h->unread.where))
        h->unread = why;
    if (format == LMI_NO_FORMAT || format == LMI_REPORT || format == LMI_PICKLE || format == LMI_TAR)
        return LAM_OK;
    h->n[format]++;
    if (is_before(path, h->name[format])) h->name[format] = path;
    return LAM_OK;
}

static lam_status look_through(held *h, const char *folder, lam_error *e) {
    lam_status s = LAM_OK;
    int n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return lmi_unreadable(folder, e);
    errno = 0;
    for (struct dirent *at; s == LAM_OK && n < MOST_FILES && (at = readdir(dir)) != NULL; n++, errno = 0)
        if (strcmp(at->d_name, ".metadata") == 0)
            h->sharded = true;
        else if (at->d_name[0] != '.')
            s = look_at(h, folder, at->d_name, e);
    if (s == LAM_OK && errno) s = lmi_unreadable(folder, e);
    closedir(dir);
    return s;
}

/* The format that is taken of a folder with files of several. */
static lmi_format first_of(const held *h) {
    static const lmi_format order[] = {LMI_INDEX,  LMI_SAFETENSORS, LMI_GGUF, LMI_CHECKPOINT, LMI_SCRIPT,
                                       LMI_LEGACY, LMI_PT2,         LMI_ONNX, LMI_PTE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (h->n[order[i]]) return order[i];
    return LMI_NO_FORMAT;
}

/* Whether a model's file can be read from the folder, and the size of the largest file that can't be, as by a
 * process that gave up to read it. */
static lam_status look_below(const char *path, bool *has, int64_t *unread, lam_error *e) {
    held h;
    held_init(&h);
    lam_status s = look_through(&h, path, NULL);
    *has = s == LAM_OK && !h.sharded && first_of(&h) != LMI_NO_FORMAT;
    *unread = h.unread_size;
    held_free(&h);
    return s == LAM_NOMEM ? lmi_nomem(e) : LAM_OK;
}

/* Refuses a folder without a model's file, and names the first folder in it that has one. Where these can't
 * be read, the one with the largest file may have one. */
static lam_status no_model(const held *h, const char *folder, lam_error *e) {
    static const char none[] = "the folder has no model file that lamina reads";
    const char *below = NULL, *may = NULL;
    int64_t most = 0;
    for (size_t i = 0; e && i < h->folders.n; i++) { /* without a reason to give, none is looked for */
        const char *path = *(const char **)lmi_vec_at(&h->folders, i);
        bool has = false;
        int64_t unread = 0;
        LAM_TRY(look_below(path, &has, &unread, e));
        if (has && is_before(path, below)) below = path;
        if (unread > most || (unread == most && may && is_before(path, may))) {
            may = path;
            most = unread;
        }
    }
    if (below) return lmi_fail(e, LAM_UNSUPPORTED, folder, "%s, and %s has one; give that", none, below);
    if (may) return lmi_fail(e, LAM_UNSUPPORTED, folder, "%s; if %s has one, give that", none, may);
    return lmi_fail(e, LAM_FAILED, folder, "%s", none);
}

static lam_status distributed(const char *path, const char *what, const char *folder, lam_error *e) {
    return lmi_fail(e, LAM_UNSUPPORTED, path,
                    "%s of torch.distributed.checkpoint, whose pieces are not read; "
                    "`python -m torch.distributed.checkpoint.format_utils dcp_to_torch %s FILE` joins them",
                    what, folder);
}

bool lmi_is_piece(const char *path) {
    static const char ending[] = ".distcp";
    const size_t n = strlen(path), k = sizeof ending - 1;
    const char *name = strrchr(path, '/');
    return (n > k && strcmp(path + n - k, ending) == 0) || strcmp(name ? name + 1 : path, ".metadata") == 0;
}

lam_status lmi_refuse_piece(const char *path, lam_error *e) {
    char *folder = lmi_beside(path, "");
    if (!folder) return lmi_nomem(e);
    if (*folder) folder[strlen(folder) - 1] = '\0';
    lam_status s = distributed(path, "it is a file of a checkpoint", *folder ? folder : ".", e);
    free(folder);
    return s;
}

/* Refuses a folder with several files of a format, unless these are all parts of one model. */
static lam_status check_alone(const held *h, lmi_format found, const char *folder, lam_error *e) {
    const char *first = h->name[found];
    char *part = NULL;
    lam_status s = h->n[found] > 1 ? LAM_UNSUPPORTED : LAM_OK;
    if (s != LAM_OK && found == LMI_GGUF) s = lmi_gguf_part(first, 0, h->n[found], &part, NULL);
    free(part);
    if (s == LAM_OK) return LAM_OK;
    if (s == LAM_NOMEM) return lmi_nomem(e);
    return lmi_fail(e, LAM_UNSUPPORTED, folder,
                    "the folder has %d model files, and no index of them; name one, as %s", (int)h->n[found],
                    first);
}

lam_status lmi_in_folder(const char *folder, char **out, lam_error *e) {
    held h;
    held_init(&h);
    *out = NULL;
    lam_status s = look_through(&h, folder, e);
    const lmi_format found = first_of(&h);
    if (s == LAM_OK && h.sharded) s = distributed(folder, "it is a checkpoint", folder, e);
    if (s == LAM_OK && !found && h.unread.status != LAM_OK)
        s = lmi_fail(e, LAM_IO, h.unread.where, "%s", h.unread.text);
    if (s == LAM_OK && !found) s = no_model(&h, folder, e);
    if (s == LAM_OK) s = check_alone(&h, found, folder, e);
    if (s == LAM_OK && !(*out = strdup(h.name[found]))) s = lmi_nomem(e);
    held_free(&h);
    return s;
}
