/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of subcommands, and the command line: long options with = or the next word as their value, short
 * ones alone, together or with their value attached, `--` before operands that look like options. */
#include "cmd/line/line.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the subcommands do stands above this room, which only has them in its table. */
#define VERB(name, run, least, most, operands, formats, options, summary, more) int run(lmi_cli *c);
#define NO_JSON(name, why)
#include "cmd/line/verbs.def"
#undef NO_JSON
#undef VERB

static const lmi_verb verbs[] = {
#define VERB(name, run, least, most, operands, formats, options, summary, more)                              \
    {#name, run, least, most, operands, formats, options, summary, more},
#define NO_JSON(name, why)
#include "cmd/line/verbs.def"
#undef NO_JSON
#undef VERB
};
static const struct {
    const char *verb, *why;
} without_json[] = {
#define VERB(name, run, least, most, operands, formats, options, summary, more)
#define NO_JSON(name, why) {#name, why},
#include "cmd/line/verbs.def"
#undef NO_JSON
#undef VERB
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

const lmi_verb *lmi_verb_at(int32_t i) { return i >= 0 && i < N_VERBS ? &verbs[i] : NULL; }

const lmi_verb *lmi_verb_find(const char *name) {
    for (int32_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

typedef enum type { FLAG, TEXT, INT, COUNT, COLUMNS, CHOICE, LIST } type;

typedef struct option {
    const char *name;
    char letter;
    type type;
    lmi_of of;
    size_t at; /* the offset of its field in lmi_args */
    const char *value, *help;
} option;

static const option options[] = {
#define LIVE(name, letter, type, field, value, help)                                                         \
    {name, letter, type, LMI_OF_LIVE, offsetof(lmi_args, live.field), value, help},
#define OPTION(name, letter, type, of, field, value, help)                                                   \
    {name, letter, type, LMI_OF_##of, offsetof(lmi_args, field), value, help},
#define HELP(verb, option, help)
#include "cmd/line/options.def"
#undef HELP
#undef OPTION
#undef LIVE
};
static const struct special {
    const char *verb, *option, *help;
} specials[] = {
#define LIVE(name, letter, type, field, value, help)
#define OPTION(name, letter, type, of, field, value, help)
#define HELP(verb, option, help) {verb, option, help},
#include "cmd/line/options.def"
#undef HELP
#undef OPTION
#undef LIVE
};
enum { N_OPTIONS = sizeof options / sizeof *options, N_SPECIALS = sizeof specials / sizeof *specials };
enum { COLUMN = 24, NARROWEST = 20, LEAST_UNITS = 350 };

lmi_args lmi_no_args(void) {
    lmi_args a = {0};
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].type == INT || options[i].type == COLUMNS)
            *(int32_t *)((char *)&a + options[i].at) = -1;
    return a;
}

static bool is_given(const lmi_args *a, const option *o) {
    const void *at = (const char *)a + o->at;
    switch (o->type) {
    case FLAG: return *(const bool *)at;
    case INT:
    case COLUMNS: return *(const int32_t *)at >= 0;
    case COUNT: return *(const int32_t *)at != 0;
    default: return *(const char *const *)at != NULL; /* a list: its first */
    }
}

const char *lmi_option_of(const lmi_args *a, unsigned kinds) {
    for (int i = 0; i < N_OPTIONS; i++)
        if ((options[i].of & kinds) && is_given(a, &options[i])) return options[i].name;
    return NULL;
}

/* -- which options a verb takes ---------------------------------------------------------------- */

const char *lmi_no_json(const lmi_verb *v) {
    for (size_t i = 0; i < sizeof without_json / sizeof *without_json; i++)
        if (strcmp(without_json[i].verb, v->name) == 0) return without_json[i].why;
    return NULL;
}

/* --help and --json are in no list: all subcommands take --help, and --json unless lmi_no_json() has a
 * reason. */
static bool takes(const lmi_verb *v, const option *o) {
    if (strcmp(o->name, "json") == 0) return !lmi_no_json(v);
    return strcmp(o->name, "help") == 0 || lmi_listed(v->options, o->name);
}

/* -- the nearest word -------------------------------------------------------------------------- */

enum { LONGEST = 32 }; /* letters of an option that does not exist */

lmi_near lmi_near_start(const char *word) { return (lmi_near){word, NULL, INT_MAX, "", ""}; }

void lmi_near_put(lmi_near *n, const char *candidate) {
    int32_t d = lmi_distance(n->word, candidate), length = (int32_t)strlen(n->word);
    int32_t most = length < 4 ? length / 2 : length < 6 ? 2 : length / 3; /* short words allow few changes */
    if (d >= n->distance || d > most) return;
    n->distance = d;
    n->best = candidate;
}

const char *lmi_near_hint(lmi_near *n, const char *otherwise) {
    if (!n->best || !*n->best) return otherwise;
    snprintf(n->hint, sizeof n->hint, "did you mean %s%s?", n->before, n->best);
    return n->hint;
}

bool lmi_is_one_of(lmi_cli *c, const char *word, const char *(*name)(int32_t i), const char *fault,
                   const char *otherwise) {
    lmi_near near = lmi_near_start(word);
    char all[320] = "there are";
    for (int32_t i = 0; name(i); i++) {
        size_t n = strlen(all);
        if (strcmp(name(i), word) == 0) return true;
        lmi_near_put(&near, name(i));
        snprintf(all + n, sizeof all - n, "%s %s", i ? "," : "", name(i));
    }
    lmi_complain(c, lmi_near_hint(&near, otherwise ? otherwise : all), "%s '%s'", fault, word);
    return false;
}

/* -- parsing ----------------------------------------------------------------------------------- */

typedef struct reader {
    lmi_cli *c;
    int argc;
    const char *const *argv;
    int at;
} reader;

static const option *by_name(const char *name, size_t n) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].name) == n && strncmp(options[i].name, name, n) == 0) return &options[i];
    return NULL;
}

static const option *by_letter(char letter) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].letter == letter) return &options[i];
    return NULL;
}

/* The first subcommand that takes an option of this name; NULL if none does. */
static const char *who_takes(const char *name) {
    const option *o = by_name(name, strlen(name));
    const lmi_verb *v;
    for (int32_t i = 0; o && (v = lmi_verb_at(i)); i++)
        if (takes(v, o)) return v->name;
    return NULL;
}

static bool unknown_option(lmi_cli *c, const char *given, const char *name) {
    lmi_near near = lmi_near_start(name);
    near.before = "--";
    for (int i = 0; i < N_OPTIONS; i++)
        if (takes(c->verb, &options[i])) lmi_near_put(&near, options[i].name);
    lmi_near_put(&near, "version"); /* in place of a subcommand */
    char hint[96];
    const char *other = who_takes(name);
    if (other)
        snprintf(hint, sizeof hint, "`lamina %s` has it; `lamina help %s` lists the options of this", other,
                 c->verb->name);
    else
        snprintf(hint, sizeof hint, "`lamina help %s` lists its options", c->verb->name);
    lmi_complain(c, other ? hint : lmi_near_hint(&near, hint), "%s: `lamina %s` has no such option", given,
                 c->verb->name);
    return false;
}

static bool set_int(lmi_cli *c, const option *o, const char *text) {
    char *end;
    long v = strtol(text, &end, 10), least = o->type == COUNT;
    bool units = strcmp(c->verb->name, "plot") == 0;
    bool narrow = o->type == COLUMNS && v >= 0 && v < (units ? LEAST_UNITS : NARROWEST);
    if (*text != '\0' && !*end && narrow) {
        if (units)
            lmi_complain(c, NULL, "--%s %s: a picture needs %d units at least; the default is 1008", o->name,
                         text, LEAST_UNITS);
        else
            lmi_complain(c, NULL, "--%s %s: a table needs %d columns at least; -w is as many as it takes",
                         o->name, text, NARROWEST);
        return false;
    }
    if (*text == '\0' || *end || v < least || v > INT32_MAX) {
        lmi_complain(c, NULL, "--%s %s: it takes a whole number from %ld to %d", o->name, text, least,
                     INT32_MAX);
        return false;
    }
    *(int32_t *)((char *)&c->args + o->at) = (int32_t)v;
    return true;
}

static bool set_choice(lmi_cli *c, const option *o, const char *text) {
    size_t n = strlen(text);
    for (const char *s = strstr(o->value, text); n && s; s = strstr(s + 1, text)) {
        if ((s != o->value && s[-1] != '|') || (s[n] && s[n] != '|')) continue;
        *(const char **)((char *)&c->args + o->at) = text;
        return true;
    }
    lmi_complain(c, NULL, "--%s %s: it is one of %s", o->name, text, o->value);
    return false;
}

static bool add_to_list(lmi_cli *c, const option *o, const char *text) {
    const char **list = (const char **)((char *)&c->args + o->at);
    int32_t n = 0;
    while (list[n]) n++;
    if (n == LMI_MAX_INPUTS) {
        lmi_complain(c, NULL, "--%s: it may be given %d times at most", o->name, LMI_MAX_INPUTS);
        return false;
    }
    list[n] = text;
    return true;
}

static bool set(lmi_cli *c, const option *o, const char *text) {
    switch (o->type) {
    case FLAG: *(bool *)((char *)&c->args + o->at) = true; return true;
    case INT:
    case COLUMNS:
    case COUNT: return set_int(c, o, text);
    case CHOICE: return set_choice(c, o, text);
    case LIST: return add_to_list(c, o, text);
    default: *(const char **)((char *)&c->args + o->at) = text; return true;
    }
}

/* Returns the word after an option that needs one; NULL after an error. */
static const char *next_word(reader *r, const option *o) {
    if (r->at + 1 < r->argc) return r->argv[++r->at];
    lmi_complain(r->c, NULL, "--%s: it needs a value, %s", o->name, o->value);
    return NULL;
}

static bool read_long(reader *r) {
    const char *word = r->argv[r->at], *name = word + 2, *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const option *o = by_name(name, n);
    if (o && strcmp(o->name, "json") == 0 && lmi_no_json(r->c->verb)) {
        lmi_complain(r->c, NULL, "%s: `lamina %s` has none: %s", word, r->c->verb->name,
                     lmi_no_json(r->c->verb));
        return false;
    }
    if (!o || !takes(r->c->verb, o)) {
        char plain[LONGEST + 1];
        snprintf(plain, sizeof plain, "%.*s", (int)(n > LONGEST ? LONGEST : n), name);
        return unknown_option(r->c, word, plain);
    }
    if (o->type == FLAG && equals) {
        lmi_complain(r->c, NULL, "%s: --%s takes no value", word, o->name);
        return false;
    }
    const char *text = o->type == FLAG ? "" : equals ? equals + 1 : next_word(r, o);
    return text && set(r->c, o, text);
}

static bool read_short(reader *r) {
    for (const char *s = r->argv[r->at] + 1; *s; s++) {
        const option *o = by_letter(*s);
        if (!o || !takes(r->c->verb, o)) return unknown_option(r->c, r->argv[r->at], "");
        if (o->type == FLAG) {
            set(r->c, o, "");
            continue;
        }
        const char *text = s[1] == '\0' ? next_word(r, o) : s[1] == '=' ? s + 2 : s + 1;
        return text && set(r->c, o, text);
    }
    return true;
}

/* Writes "text, md" and `last` and "json" of "text md json". */
static const char *list_formats(const lmi_verb *v, const char *last, char *to, size_t room) {
    size_t n = 0;
    to[0] = '\0';
    for (const char *s = v->formats; *s && n < room;) {
        const size_t word = strcspn(s, " ");
        const char *between = !n ? "" : s[word] ? ", " : last;
        n += (size_t)snprintf(to + n, room - n, "%s%.*s", between, (int)word, s);
        s += word + (s[word] == ' ');
    }
    return to;
}

bool lmi_format_known(lmi_cli *c, const char *of) {
    const char *format = c->args.format;
    char list[96];
    if (!format || lmi_listed(c->verb->formats, format)) return true;
    lmi_complain(c, NULL, "format: there is no format '%.60s' for %s; there are: %s", format, of,
                 list_formats(c->verb, ", ", list, sizeof list));
    return false;
}

static const struct {
    const char *ending, *format; /* "": nothing here writes it */
} endings[] = {{"csv", "csv"},  {"json", "json"}, {"md", "md"},   {"markdown", "md"}, {"html", "html"},
               {"htm", "html"}, {"svg", "svg"},   {"dot", "dot"}, {"gv", "dot"},      {"txt", "text"},
               {"png", ""},     {"jpg", ""},      {"jpeg", ""},   {"gif", ""},        {"pdf", ""},
               {"xls", ""},     {"xlsx", ""},     {"tsv", ""},    {"yaml", ""},       {"yml", ""},
               {"parquet", ""}, {"lamina", ""}};

/* In capitals too. */
static bool is_same(const char *ending, const char *small) {
    for (; *ending && *small; ending++, small++)
        if ((*ending >= 'A' && *ending <= 'Z' ? *ending + ('a' - 'A') : *ending) != *small) return false;
    return *ending == *small;
}

/* NULL: the name tells none. */
static const char *format_of_name(const char *file) {
    const char *dot = strrchr(file, '.'), *slash = strrchr(file, '/');
    if (!dot || dot == file || (slash && dot <= slash + 1)) return NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (is_same(dot + 1, endings[i].ending)) return endings[i].format;
    return NULL;
}

/* What writes such a file. */
static const char *who_writes(const char *format) {
    if (strcmp(format, "svg") == 0) return "`lamina plot` and `lamina graph` draw SVG";
    if (strcmp(format, "dot") == 0) return "`lamina graph` writes DOT";
    if (strcmp(format, "html") == 0) return "`lamina report` writes pages, also of two models or reports";
    if (strcmp(format, "") != 0) return "`lamina show` writes it";
    return "no subcommand writes that: tables are csv, md, html or json, pictures svg";
}

bool lmi_format_by_ending(lmi_cli *c) {
    const char *file = c->args.output, *format = lmi_is_to_file(c) ? format_of_name(file) : NULL;
    char list[96], hint[192];
    if (!format || c->args.format || !*c->verb->formats) return true;
    if (*format && lmi_listed(c->verb->formats, format)) {
        if (strchr(c->verb->formats, ' ')) c->args.format = format;
        return true;
    }
    snprintf(hint, sizeof hint, "%s; name the file by what is to be in it%s", who_writes(format),
             lmi_listed(c->verb->options, "format") ? ", or say it with --format" : "");
    lmi_complain(c, hint, "-o %s: `lamina %s` writes %s, and not what the name says", file, c->verb->name,
                 list_formats(c->verb, " or ", list, sizeof list));
    return false;
}

/* --json means --format json, also for a subcommand without formats. */
static bool json_alone(lmi_cli *c) {
    const char *format = c->args.format;
    if (!c->args.json) return true;
    c->args.format = "json";
    if (!format || strcmp(format, "json") == 0) return true;
    lmi_complain(c, "leave one of them out", "--json and --format %s are two formats", format);
    return false;
}

bool lmi_is_format(const lmi_args *a, const char *name) { return a->format && strcmp(a->format, name) == 0; }
bool lmi_is_json(const lmi_args *a) { return lmi_is_format(a, "json"); }
bool lmi_is_text(const lmi_args *a) { return !a->format || lmi_is_format(a, "text"); }

bool lmi_repeats_fit(lmi_cli *c) {
    if (!c->args.live.repeats || c->args.live.time) return true;
    lmi_complain(c, "add --time", "--repeats %d is of runs that are timed", (int)c->args.live.repeats);
    return false;
}

bool lmi_too_many(lmi_cli *c, const char *word, const char *hint) {
    char input[64];
    bool shape = strchr(word, 'x') && strspn(word, "0123456789x") == strlen(word);
    if (shape && strlen(word) < 24 && lmi_listed(c->verb->options, "input")) {
        snprintf(input, sizeof input, "an input is given as -i %s", word);
        hint = input;
    }
    lmi_complain(c, hint, "%s: one operand too many; the usage is: lamina %s%s%s", word, c->verb->name,
                 *c->verb->operands ? " " : "", c->verb->operands);
    return false;
}

static bool add_operand(lmi_cli *c, const char *word) {
    lmi_args *a = &c->args;
    if (a->n_operands == c->verb->most) return lmi_too_many(c, word, NULL);
    a->operands[a->n_operands++] = word;
    return true;
}

const char *lmi_usage(const lmi_verb *v, char *to, size_t room) {
    lmi_shell_option unused;
    const bool first = v->most < 0; /* what follows a program's name is the program's */
    const char *some = lmi_option_at(v, 0, &unused) ? " [options]" : "", *space = *v->operands ? " " : "";
    snprintf(to, room, "%s%s%s%s%s", v->name, first ? some : "", space, v->operands, first ? "" : some);
    return to;
}

/* True for the first word of another program's command line. */
static bool is_program(const lmi_cli *c, const char *word) {
    return c->verb->most < 0 && (c->args.module || word[0] != '-' || word[1] == '\0');
}

/* An option of lamina's behind the program's name is the program's. It is said, unless `--` came before. */
static void point_at_options(const reader *r) {
    const lmi_cli *c = r->c;
    for (int i = r->at + !c->args.module; i < r->argc; i++) {
        const char *word = r->argv[i];
        const size_t n = strcspn(word, "=");
        const option *o = n > 2 && strncmp(word, "--", 2) == 0 ? by_name(word + 2, n - 2) : NULL;
        if (!o || !takes(c->verb, o)) continue;
        lmi_remark(r->c,
                   "%s stands behind the program, so the program gets it; lamina's own options come first: "
                   "lamina %s "
                   "%s%s%s %s",
                   word, c->verb->name, word, o->type == FLAG || word[n] ? "" : " ",
                   o->type == FLAG || word[n] ? "" : o->value, c->args.module ? "-m MODULE" : r->argv[r->at]);
        return;
    }
}

static void take_rest(const reader *r, bool apart) {
    r->c->args.rest = r->argv + r->at;
    r->c->args.n_rest = r->argc - r->at;
    if (!apart) point_at_options(r);
}

bool lmi_parse(lmi_cli *c, int argc, const char *const *argv, int from) {
    reader r = {c, argc, argv, from};
    char usage[96];
    bool only_operands = false, ok = true;
    for (; ok && r.at < argc; r.at++) {
        const char *word = argv[r.at];
        if (is_program(c, word)) break;
        if (only_operands || word[0] != '-' || word[1] == '\0')
            ok = add_operand(c, word);
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else
            ok = word[1] == '-' ? read_long(&r) : read_short(&r);
    }
    if (ok && c->verb->most < 0) take_rest(&r, only_operands);
    ok = ok && json_alone(c);
    if (!ok || c->args.help || c->args.n_operands + c->args.n_rest >= c->verb->least) return ok;
    if (c->args.module) return ok;
    lmi_complain(c, c->verb->more, "the usage is: lamina %s", lmi_usage(c->verb, usage, sizeof usage));
    return false;
}

/* -- help -------------------------------------------------------------------------------------- */

static const char *help_of(const lmi_verb *v, const option *o) {
    for (int i = 0; i < N_SPECIALS; i++)
        if (strcmp(specials[i].verb, v->name) == 0 && strcmp(specials[i].option, o->name) == 0)
            return specials[i].help;
    return o->help;
}

bool lmi_option_at(const lmi_verb *v, int32_t i, lmi_shell_option *out) {
    for (int k = 0; k < N_OPTIONS; k++) {
        const option *o = &options[k];
        if (strcmp(o->name, "help") == 0 || !takes(v, o) || i-- > 0) continue;
        *out = (lmi_shell_option){o->name, o->letter, o->type == FLAG ? NULL : o->value, help_of(v, o)};
        return true;
    }
    return false;
}

void lmi_say_words(lmi_cli *c, const char *label, int32_t indent, const char *text) {
    enum { LEAST = 20, NARROW = 4 };
    const int32_t width = c->host->width > 0 ? c->host->width : 0;
    lmi_buf b;
    lmi_flow f;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, (size_t)width, (size_t)(width && width < indent + LEAST ? NARROW : indent));
    f.whole = true;
    if (*label) lmi_flow_label(&f, NULL, label, 0);
    lmi_flow_words(&f, NULL, text);
    lmi_flow_end(&f);
    lmi_say_text(c, &b);
}

static void help_option(lmi_cli *c, const lmi_verb *v, const option *o) {
    char left[64], letter[8] = "    ";
    const char *help = help_of(v, o);
    if (!help) return;
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    lmi_say_words(c, left, COLUMN + 4, help);
}

void lmi_help_verb(lmi_cli *c, const lmi_verb *v) {
    char usage[96];
    lmi_say(c, "usage: lamina %s\n", lmi_usage(v, usage, sizeof usage));
    lmi_say_words(c, "", 0, v->summary);
    if (v->more) lmi_say_words(c, "", 0, v->more);
    for (int i = 0; i < N_OPTIONS; i++)
        if (takes(v, &options[i])) help_option(c, v, &options[i]);
}
