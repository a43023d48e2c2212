/* SPDX-License-Identifier: Apache-2.0
 *
 * The command: what it prints, on which stream, and its exit code. */
#include "kit/oom.h"

#include "kit/fakehost.h"
#include "kit/net.h"

#include <unistd.h>

static const char FILE_NAME[] = "test_cmd_command.out";

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *s = strstr(text, part); s; s = strstr(s + 1, part)) n++;
    return n;
}

static int count_lines(const char *text) { return count(text, "\n"); }

static char *read_file(const char *path) {
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* -- words ------------------------------------------------------------------------------------- */

static void no_words(void **state) {
    (void)state;
    assert_int_equal(lamina(""), 0);
    OUT_HAS("usage: lamina SUBCOMMAND");
    ERR_IS_EMPTY();
    static const char *const same[] = {"help", "--help", "-h"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lamina(same[i]), 0);
        OUT_HAS("  show ");
        assert_true(count_lines(fake_out.text) <= 24);
    }
    assert_int_equal(lamina("version"), 0);
    assert_string_equal(fake_out.text, "lamina " LAM_VERSION "\n");
    assert_int_equal(lamina("--version"), 0);
    assert_int_equal(lamina("-V"), 0);
    OUT_HAS(LAM_VERSION);
}

static void help_fits_a_screen(void **state) {
    (void)state;
    static const char *const verbs[] = {"show",  "report", "why",     "compare", "graph", "plot",
                                        "fit",   "run",    "live",    "export",  "rules", "conventions",
                                        "table", "doctor", "version", "help",    "diff"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        char line[64];
        snprintf(line, sizeof line, "help %s", verbs[i]);
        assert_int_equal(lamina(line), 0);
        assert_true(count_lines(fake_out.text) <= 32);
        static char first[sizeof fake_out.text];
        memcpy(first, fake_out.text, sizeof first);
        snprintf(line, sizeof line, "%s --help", verbs[i]);
        assert_int_equal(lamina(line), 0);
        assert_string_equal(fake_out.text, first);
        for (const char *s = first; s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
            assert_true(strcspn(s, "\n") <= 110);
    }
    assert_int_equal(lamina("help sow"), 2);
    ERR_HAS("did you mean show?");
}

static void put_rules(const char *bytes, size_t n) {
    FILE *f = fopen(FILE_NAME, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void rules_that_cannot_be_read(void **state) {
    (void)state;
    char line[128];
    assert_int_equal(lamina("show resnet18 --rules no/such/file"), 2);
    ERR_HAS("--rules no/such/file: No such file");
    assert_int_equal(lamina("show resnet18 --rules ."), 2);
    ERR_HAS("--rules .: Is a directory");
    snprintf(line, sizeof line, "show resnet18 --rules %s", FILE_NAME);
    put_rules("a::b\0macs = 1", 13);
    assert_int_equal(lamina(line), 2);
    ERR_HAS("it is not text");
    put_rules("a::b  macs = = 1\n", 17);
    assert_int_equal(lamina(line), 2);
    ERR_HAS("test_cmd_command.out:1:");
    size_t n = (size_t)1 << 25;
    char *large = __real_malloc(n);
    memset(large, '\n', n);
    put_rules(large, n);
    free(large);
    assert_int_equal(lamina(line), 2);
    ERR_HAS("it is too large");
    unlink(FILE_NAME);
}

/* Words are kept whole, and each sentence is the one that a wide terminal shows. */
static void help_fits_a_narrow_terminal(void **state) {
    (void)state;
    static char wide[sizeof fake_out.text];
    static const char *const lines[] = {"help", "help show", "help run", "help export"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(lamina(lines[i]), 0);
        memcpy(wide, fake_out.text, sizeof wide);
        for (int32_t width = 1; width <= 120; width++) {
            lam_host h = fake_host();
            h.width = width;
            assert_int_equal(fake_run(&h, lines[i]), 0);
            size_t most = width < 72 ? 72 : (size_t)width;
            const char *w = wide;
            for (const char *s = fake_out.text; *s; s += strcspn(s, "\n"), s += *s == '\n') {
                bool given = strncmp(s, "usage", 5) == 0 || strncmp(s, "example", 7) == 0;
                assert_true(given || strcspn(s, "\n") <= most);
            }
            for (const char *s = fake_out.text; *s; w++) {
                size_t blanks = strspn(s, " \n"), had = strspn(w, " \n");
                assert_true((blanks > 0) == (had > 0));
                s += blanks;
                w += had;
                assert_int_equal(*s, *w);
                if (*s) s++;
            }
        }
    }
}

/* An option's sentence is what it does in that subcommand. */
static void help_names_the_formats_that_there_are(void **state) {
    (void)state;
    assert_int_equal(lamina("help show"), 0);
    OUT_HAS("--format NAME         text, csv, md, html, json or --json; trace (Perfetto), speedscope");
    assert_int_equal(lamina("help fit"), 0);
    OUT_HAS("--format NAME         text, json or html\n");
    assert_int_equal(lamina("help compare"), 0);
    OUT_HAS("--format NAME         text, md, json, csv or html\n");
    OUT_HAS("-c, --convention NAME     torch,fvcore: all their differences");
}

static void wrong_words(void **state) {
    (void)state;
    static const struct {
        const char *line, *error;
    } cases[] = {
        {"shwo x:y", "lamina: error: shwo: there is no such subcommand\n  hint: did you mean show?\n"},
        {"gibberish", "gibberish: there is no such subcommand\n"},
        {"net -i 1x4", "net: a model is given as MODULE:NAME or FILE.py:NAME"},
        {"net --inputs a:b", "write net:NAME or net.py:NAME\n"},
        {"show", "the usage is: lamina show TARGET [options]"},
        {"show a:b c:d", "c:d: one operand too many; the usage is: lamina show TARGET"},
        {"show a:b --dpeth 2", "did you mean --depth?"},
        {"show a:b --colour always", "did you mean --color?"},
        {"show a:b --zzz", "`lamina help show` lists its options"},
        {"show a:b -q", "-q: `lamina show` has no such option"},
        {"rules --depth 2", "--depth: `lamina rules` has no such option"},
        {"show a:b --depth", "--depth: it needs a value, N"},
        {"show a:b -o", "--output: it needs a value, FILE"},
        {"show a:b --depth x", "--depth x: it takes a whole number from 0 to 2147483647"},
        {"show a:b --depth -1", "--depth -1: it takes a whole number from 0"},
        {"show a:b --depth 99999999999", "--depth 99999999999: it takes a whole number"},
        {"show a:b --repeats 3", "--repeats 3 is of runs that are timed"},
        {"show a:b --time --repeats 0", "--repeats 0: it takes a whole number from 1 to 2147483647"},
        {"fit a:b --batch 0", "--batch 0: it takes a whole number from 1"},
        {"run --every x train.py", "--every x: it takes a whole number from 1"},
        {"show a:b --depth=", "--depth : it takes a whole number"},
        {"show a:b --color red", "--color red: it is one of auto|always|never"},
        {"show a:b --mode e", "--mode e: it is one of eval|train"},
        {"show a:b --rf=1", "--rf=1: --rf takes no value"},
        {"show a:b -c layer", "unknown convention 'layer'\n  hint: did you mean layers?"},
        {"net -i 1x4", "net: a model is given as MODULE:NAME or FILE.py:NAME"},
        {"show a:b --batch 2", "hint: `lamina compare` has it; `lamina help show` lists the options of this"},
        {"show a:b -b 8",
         "-b: `lamina show` has no such option\n  hint: `lamina help show` lists its options"},
        {"show a:b --width 19", "--width 19: a table needs 20 columns at least; -w is as many as it takes"},
        {"plot icicle a:b --width 349",
         "--width 349: a picture needs 350 units at least; the default is 1008"},
        {"show a:b --dry --time", "--time and --dry: a dry run computes nothing"},
        {"show a:b --dry --roof",
         "--roof and --dry: a dry run computes nothing, so there is no time to tell"},
        {"show a:b --dry --sort time", "--sort time and --dry: a dry run computes nothing"},
        {"show a:b --dry --memory", "--memory and --dry: a dry run allocates nothing"},
        {"check a:b --dry --max macs=1 --max peak=1GiB",
         "--max peak=1GiB and --dry: a dry run allocates nothing"},
        {"plot roofline a:b --dry", "roofline and --dry: a dry run computes nothing"},
        {"show a:b --dry --health", "--health and --dry: a dry run computes no values"},
        {"show a:b 1x3x8x8", "1x3x8x8: one operand too many"},
        {"show a:b 1x3x8x8", "hint: an input is given as -i 1x3x8x8"},
        {"graph a:b 1x3", "hint: an input is given as -i 1x3"},
        {"rules exact 1x3", "lamina rules [CONVENTION]\n"},
        {"doctor x", "x: one operand too many; the usage is: lamina doctor\n"},
        {"show a:b -c layers --backward",
         "alone\n  hint: leave --backward out, or count by one of exact, torch"},
        {"why a:b x -c layers --backward", "--backward: the convention 'layers' counts"},
        {"show a:b --released",
         "form only\n  hint: leave --released out, or count by one of torchscan, thoplw\n"},
        {"why a:b x -c torch --released", "--released: the convention 'torch' has one form only"},
        {"show a:b -c nobody", "hint: `lamina conventions` lists them"},
        {"why a:b x -c nobody", "unknown convention 'nobody'"},
        {"rules nobody", "unknown convention 'nobody'"},
        {"show a:b --format pdf", "there is no format 'pdf'; there are: text, csv"},
        {"show a:b --layout keras", "there is no layout 'keras'; there are: lamina"},
        {"show a:b --layout thoplw --rf --format md --width", "--width: it needs a value"},
        {"table torchinfo",
         "torchinfo: there is no such published table\n  hint: there are: torchscan thoplw"},
        {"table torchscan alexnett", "alexnett: the table has no such model\n  hint: did you mean alexnet?"},
        {"table torchscan transformer", "hint: leave MODEL out to run all of them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = lamina(cases[i].line);
        if (code != 2) fail_msg("`lamina %s` gave %d", cases[i].line, code);
        ERR_HAS(cases[i].error);
        OUT_IS_EMPTY();
        assert_int_equal(fake_lives, 0); /* found before any model was run */
        assert_int_equal(strncmp(fake_err.text, "lamina: error: ", 15), 0);
    }
}

static void too_many_inputs(void **state) {
    (void)state;
    const char *argv[140] = {"lamina", "m:two"};
    int argc = 2;
    for (int i = 0; i < 64; i++) argv[argc++] = "-i1x4";
    lam_host h = fake_host();
    assert_int_equal(lam_command(argc, argv, &h), 0);
    assert_non_null(fake_asked.inputs[63]);
    assert_null(fake_asked.inputs[64]);
    argv[argc++] = "-i1x4";
    h = fake_host();
    assert_int_equal(lam_command(argc, argv, &h), 2);
    ERR_HAS("--input: it may be given 64 times at most");
    assert_int_equal(lam_command(1, NULL, &h), 4);
    assert_int_equal(lam_command(1, argv, NULL), 4);
    assert_int_equal(lam_command(-1, NULL, &h), 4);
}

/* -- show -------------------------------------------------------------------------------------- */

static void show_a_model(void **state) {
    (void)state;
    assert_int_equal(lamina("show m:two -i 1x4"), 0);
    ERR_IS_EMPTY();
    OUT_HAS("fc");
    assert_string_equal(fake_request, "m:two mode=eval -i 1x4 ops");
    static char first[sizeof fake_out.text];
    memcpy(first, fake_out.text, sizeof first);
    assert_int_equal(lamina("m:two -i 1x4"), 0);
    assert_string_equal(fake_out.text, first);
    assert_int_equal(lamina("-i 1x4 -- m:two"), 0);
    assert_string_equal(fake_out.text, first);
    assert_int_equal(lamina("m:two -i1x4 --input=2x4:int64 -k weights=None --build=a=b --mode train"), 0);
    assert_string_equal(fake_request, "m:two mode=train -i 1x4 -i 2x4:int64 ops weights=None a=b");
    assert_int_equal(lamina("m:two -o -"), 0);
    assert_string_equal(fake_out.text, first);
}

static void show_formats(void **state) {
    (void)state;
    assert_int_equal(lamina("m:two --format csv"), 0);
    OUT_HAS("path,");
    assert_int_equal(lamina("m:two --format=json"), 0);
    assert_int_equal(fake_out.text[0], '{');
    assert_int_equal(lamina("m:two --format md"), 0);
    OUT_HAS("|");
    assert_int_equal(lamina("m:two --layout thoplw"), 0);
    OUT_HAS("thoplw text\n");
    OUT_HAS(" a.fc\n");
    assert_int_equal(count(fake_out.text, ".fc"), 1); /* as released: one row for the shared module */
    assert_int_equal(lamina("m:two --layout torchscan-0.1.2 --rf"), 0);
    OUT_HAS("torchscan-0.1.2 text rf\n");
    assert_int_equal(count(fake_out.text, ".fc\n"), 2);
    assert_int_equal(lamina("m:two --layout torchscan-0.1.1 --rf"), 0);
    OUT_HAS("torchscan-0.1.1 text rf\n");
    assert_int_equal(lamina("m:two --layout thoplw -c torchscan"), 0); /* every call, by another's rules */
    assert_int_equal(count(fake_out.text, ".fc"), 2);
}

static void show_depth(void **state) {
    (void)state;
    assert_int_equal(lamina("m:two --depth 1"), 0);
    assert_null(strstr(fake_out.text, "act"));
    assert_int_equal(lamina("m:two --depth 1 --layout torchscan-0.1.2"), 0);
    assert_null(strstr(fake_out.text, "act"));
    OUT_HAS("1 b\n");
    assert_int_equal(lamina("m:two -d 7 --layout torchscan-0.1.2"), 2);
    ERR_HAS("max_depth=7 is beyond the tree: the deepest layer has depth 2; pass 0 to 2");
    OUT_IS_EMPTY();
}

static int widest(const char *s) {
    int most = 0;
    for (int n = 0; *s; s++) {
        n = *s == '\n' ? 0 : n + ((*s & 0xc0) != 0x80);
        if (n > most) most = n;
    }
    return most;
}

static void show_width(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.width = 60;
    assert_int_equal(fake_run(&h, "m:two"), 0);
    assert_true(widest(fake_out.text) <= 60);
    assert_int_equal(lamina("m:two --width 50"), 0);
    assert_true(widest(fake_out.text) <= 50);
    assert_int_equal(lamina("m:two --width 20"), 0); /* the narrowest */
    assert_int_equal(lamina("m:two -w"), 0);
    assert_int_equal(lamina("m:two --exact --expand -c thoplw --released --ascii"), 0);
    for (const char *s = fake_out.text; *s; s++) assert_true((unsigned char)*s < 0x80);
    h = fake_host();
    h.out_is_utf8 = false;
    assert_int_equal(fake_run(&h, "m:two"), 0);
    for (const char *s = fake_out.text; *s; s++) assert_true((unsigned char)*s < 0x80);
}

static bool colored(const char *line, bool terminal) {
    lam_host h = fake_host();
    h.out_is_terminal = terminal;
    assert_int_equal(fake_run(&h, line), 0);
    return strchr(fake_out.text, '\x1b') != NULL;
}

static void show_color(void **state) {
    (void)state;
    static const char *const variables[] = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"};
    for (int i = 0; i < 4; i++) unsetenv(variables[i]);
    assert_false(colored("m:two", false));
    assert_true(colored("m:two", true));
    assert_true(colored("m:two --color always", false));
    assert_false(colored("m:two --color never", true));
    setenv("NO_COLOR", "1", 1);
    assert_false(colored("m:two", true));
    assert_true(colored("m:two --color always", true));
    setenv("FORCE_COLOR", "1", 1);
    assert_false(colored("m:two", true));
    setenv("NO_COLOR", "", 1); /* set to nothing is not set */
    assert_true(colored("m:two", false));
    setenv("FORCE_COLOR", "0", 1);
    assert_false(colored("m:two --color auto", false));
    setenv("CLICOLOR_FORCE", "1", 1);
    assert_true(colored("m:two", false));
    unsetenv("CLICOLOR_FORCE");
    setenv("TERM", "dumb", 1);
    assert_false(colored("m:two", true));
    for (int i = 0; i < 4; i++) unsetenv(variables[i]);
}

/* A roof asks for times, and for a convention that counts what stands beside it. */
static void show_roof(void **state) {
    (void)state;
    assert_int_equal(lamina("m:step --roof --wide"), 2); /* the host's model has no times */
    assert_true(fake_asked.time && fake_asked.ops);
    ERR_HAS("times were not measured");
    fake_lives = 0;
    assert_int_equal(lamina("m:two --roof -c torchscan"), 2);
    ERR_HAS("does not count bytes");
    assert_int_equal(fake_lives, 0);
    lam_host h = fake_host();
    h.roof = NULL;
    assert_int_equal(fake_run(&h, "m:two --roof"), 3);
    ERR_HAS("what this machine can do is not known here");
    assert_int_equal(fake_lives, 0);
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void partial_model(void **state) {
    (void)state;
    assert_int_equal(lamina("m:partial -i 1x2"), 3);
    OUT_HAS("Linear"); /* the table so far */
    assert_string_equal(fake_err.text, "lamina: error: 1: mat1 and mat2 shapes cannot be multiplied\n");
    assert_int_equal(lamina("why m:partial 0"), 3);
    OUT_HAS("  MACs                     6 = 3 \xc3\x97 2\n");
    ERR_HAS("mat1 and mat2");
}

static void no_model(void **state) {
    (void)state;
    assert_int_equal(lamina("m:broken"), 3);
    OUT_IS_EMPTY();
    assert_string_equal(fake_err.text, "lamina: error: m:broken: the module m has no name broken\n");
    assert_int_equal(lamina("m:silent"), 3);
    ERR_HAS("m:silent: the host gave no model and no reason");
    lam_host h = fake_host();
    h.live = NULL;
    assert_int_equal(fake_run(&h, "why m:two a.fc"), 3);
    ERR_HAS("nothing here that can run a live model");
}

static void streams_that_refuse(void **state) {
    (void)state;
    lam_host h = fake_host();
    fake_out.fails_with = EPIPE;
    assert_int_equal(fake_run(&h, "m:two"), 0);
    ERR_IS_EMPTY();
    assert_int_equal(fake_run(&h, "rules"), 0);
    ERR_IS_EMPTY();
    fake_out.fails_with = ENOSPC;
    assert_int_equal(fake_run(&h, "m:two"), 3);
    ERR_HAS("lamina: error: the standard output: it could not be written: ");
    assert_int_equal(count(fake_err.text, "error"), 1);
    h = fake_host();
    fake_out.fails_with = ENOSPC;
    assert_int_equal(fake_run(&h, "conventions"), 3);
    ERR_HAS("could not be written");
}

/* -- files ------------------------------------------------------------------------------------- */

static void files(void **state) {
    (void)state;
    char line[128];
    unlink(FILE_NAME);
    snprintf(line, sizeof line, "m:two --format csv -o %s", FILE_NAME);
    assert_int_equal(lamina(line), 0);
    OUT_IS_EMPTY();
    assert_non_null(strstr(read_file(FILE_NAME), "path,"));
    assert_int_equal(lamina(line), 2);
    ERR_HAS("it exists already\n  hint: pass -f to overwrite it");
    assert_int_equal(fake_lives, 0);
    snprintf(line, sizeof line, "m:broken -f -o %s", FILE_NAME);
    assert_int_equal(lamina(line), 3); /* nothing to write: the old file stays */
    assert_non_null(strstr(read_file(FILE_NAME), "path,"));
    snprintf(line, sizeof line, "conventions -fo%s", FILE_NAME);
    assert_int_equal(lamina(line), 0);
    assert_null(strstr(read_file(FILE_NAME), "path,"));
    assert_non_null(strstr(read_file(FILE_NAME), "torchscan 0.1.2"));
    unlink(FILE_NAME);
    snprintf(line, sizeof line, "m:two -o no/such/folder/%s", FILE_NAME);
    assert_int_equal(lamina(line), 2);
    ERR_HAS(": there is no folder no/such/folder\n  hint: make it, or name another file\n");
    assert_int_equal(fake_lives, 0); /* no work is done for nothing */
    assert_int_equal(lamina("m:two -f -o ."), 2);
    ERR_HAS(".: it is a folder\n  hint: name a file in it\n");
    assert_int_equal(lamina("m:two --output="), 2);
    ERR_HAS("'': it is no name of a file\n  hint: name a file\n");
    assert_int_equal(fake_lives, 0);
    char longer[320];
    snprintf(longer, sizeof longer, "m:two -o /%0300d", 0); /* its folder is there */
    assert_int_equal(lamina(longer), 3);
    ERR_HAS("it could not be written: File name too long");
}

static void full_disk(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    assert_int_equal(lamina("m:two -f -o /dev/full"), 3);
    ERR_HAS("/dev/full: it could not be written: No space left on device");
}

/* A file is UTF-8, without colours and 100 columns wide, whatever the terminal is. */
static void file_is_no_terminal(void **state) {
    (void)state;
    char line[128];
    lam_host h = fake_host();
    h.out_is_terminal = true;
    h.out_is_utf8 = false;
    h.width = 30;
    unlink(FILE_NAME);
    snprintf(line, sizeof line, "m:two -o %s", FILE_NAME);
    assert_int_equal(fake_run(&h, line), 0);
    const char *text = read_file(FILE_NAME);
    assert_null(strchr(text, '\x1b'));
    assert_true(widest(text) > 30);
    unlink(FILE_NAME);
}

/* -- the other verbs --------------------------------------------------------------------------- */

static void other_tools(void **state) {
    (void)state;
    assert_int_equal(lamina("compare m:step -c torch,fvcore"), 0);
    assert_true(fake_asked.ops && fake_asked.unfused);
    OUT_HAS("exact   >= 70          at least: ");
    OUT_HAS("fvcore  >= 46       ?  leaves out Linear (1 call)");
    assert_int_equal(lamina("compare m:step -c all"), 0);
    OUT_HAS("\ntorchinfo ");
    OUT_HAS("\n-c NAME shows every difference of one tool");
    assert_int_equal(lamina("compare m:step -c torch --format csv --flops"), 0);
    OUT_HAS("\nexact,");
    assert_int_equal(lamina("compare m:two"), 2);
    ERR_HAS("operators");
    assert_int_equal(lamina("compare m:broken"), 3);
    ERR_HAS("no name broken");
    assert_int_equal(lamina("compare m:step --format html"), 0);
    OUT_HAS("<!doctype html>");
    OUT_HAS("<div class=\"lamina\"");
    char many[] = "compare m:step -c torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,"
                  "torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,torch,"
                  "torch,torch,torch,torch,torch,torch";
    assert_int_equal(lamina(many), 2);
    ERR_HAS("-c: it takes 32 conventions at most");
    many[sizeof many - 1 - strlen(",torch")] = '\0';
    assert_int_equal(lamina(many), 0);
    assert_int_equal(lamina("compare m:step --format xml"), 2);
    ERR_HAS("there is no format 'xml' for a comparison; there are: text, md, json, csv, html");
    assert_int_equal(lamina("compare m:step -c torch,torhc"), 2);
    ERR_HAS("torhc");
    assert_int_equal(fake_lives, 0); /* nothing is run for a command line that can't be */
}

/* --rules with a file of this text. */
static int with_rules(const char *text, size_t n, const char *line) {
    char path[128], whole[256];
    snprintf(path, sizeof path, "%s/lamina_rules_%d", P_tmpdir, (int)getpid());
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    snprintf(whole, sizeof whole, "%s --rules %s", line, path);
    int code = lamina(whole);
    assert_int_equal(remove(path), 0);
    return code;
}

static void rules_of_ones_own(void **state) {
    (void)state;
    static const char good[] = "my::op  macs = 7000  flops = 0\n", bad[] = "my::op\nother  macs = 3 *\n";
    assert_int_equal(with_rules(good, sizeof good - 1, "m:step -c exact --exact"), 0);
    OUT_HAS("14,0"); /* two of them beside all the rest */
    assert_int_equal(with_rules(bad, sizeof bad - 1, "m:step -c exact"), 2);
    ERR_HAS("lamina_rules_");
    assert_int_equal(with_rules("# none\n", 7, "m:step"), 2);
    ERR_HAS(": it has no rules; `lamina rules torchscan` prints some");
    assert_int_equal(with_rules("a\0b", 3, "m:step"), 2);
    ERR_HAS("it is not text");
    assert_int_equal(lamina("m:step --rules /no/such/file"), 2);
    ERR_HAS("--rules /no/such/file: No such file");
    assert_int_equal(lamina("m:step --rules /"), 2);
    ERR_HAS("--rules /: Is a directory");
    assert_int_equal(lamina("m:step -c exact --strict"), 1);
    ERR_HAS("no rule for the operator my::op (2 runs)");
    assert_int_equal(with_rules(good, sizeof good - 1, "m:step -c exact --strict"), 0);
}

static void rules(void **state) {
    (void)state;
    assert_int_equal(lamina("rules torchscan"), 0);
    OUT_HAS("convention torchscan: torchscan 0.1.2\n");
    OUT_HAS("\nlinear\n  macs     out*red\n  flops    out*(2*red-1+bias)\n");
    OUT_HAS("released: ");
    OUT_HAS("\nfacts\n");
    assert_int_equal(lamina("rules thoplw"), 0);
    OUT_HAS("no opinion");
    assert_int_equal(lamina("rules"), 0);
    OUT_HAS("convention exact: ");
    assert_int_equal(lamina("conventions"), 0);
    OUT_HAS("(the default)");
    assert_int_equal(count_lines(fake_out.text), lam_n_conventions());
}

/* A name from a stranger does not drive the terminal, and a long one is printed whole. */
static lam_status live_hostile(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    (void)self, (void)what, (void)e;
    static char type[3000];
    memset(type, 'x', sizeof type - 1);
    memcpy(type, "\x1b[31mred\x7f\xc2\x9b", 11);
    net n = net_new();
    int32_t m = net_leaf(&n, type);
    net_place(&n, -1, "", m);
    net_call(&n, m, -1, SH(1, 2), 0, SH(1, 2), 0);
    *out = net_done(&n);
    return LAM_OK;
}

static void hostile_names(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.live = live_hostile;
    assert_int_equal(fake_run(&h, "why m:x ."), 0);
    for (const char *s = fake_out.text; *s; s++)
        assert_true(((unsigned char)*s >= 0x20 && *s != 0x7f) || *s == '\n');
    assert_null(strstr(fake_out.text, "\xc2\x9b"));
    assert_true(strlen(fake_out.text) > 2900);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void run_line(void *arg, bool *ok) {
    int code = lamina(arg);
    *ok = code == 0;
    if (*ok) return;
    assert_int_equal(code, 4);
    ERR_HAS("memory ran out");
}

static void out_of_memory(void **state) {
    (void)state;
    oom_sweep(run_line, "show m:two -i 1x4");
    oom_sweep(run_line, "show m:two --layout torchscan-0.1.1 --depth 1");
    oom_sweep(run_again, "why m:two a.fc");
    oom_sweep(run_line, "completion bash");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_words),
        cmocka_unit_test(help_fits_a_screen),
        cmocka_unit_test(help_fits_a_narrow_terminal),
        cmocka_unit_test(rules_that_cannot_be_read),
        cmocka_unit_test(help_names_the_formats_that_there_are),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(too_many_inputs),
        cmocka_unit_test(show_a_model),
        cmocka_unit_test(show_formats),
        cmocka_unit_test(show_depth),
        cmocka_unit_test(show_width),
        cmocka_unit_test(show_color),
        cmocka_unit_test(show_roof),
        cmocka_unit_test(partial_model),
        cmocka_unit_test(no_model),
        cmocka_unit_test(streams_that_refuse),
        cmocka_unit_test(files),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(file_is_no_terminal),
        cmocka_unit_test(rules),
        cmocka_unit_test(other_tools),
        cmocka_unit_test(rules_of_ones_own),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
