/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina show` and `lamina check` of the folder of a run of many ranks, which the host reads; and of folders
 * that are none. */
#include "kit/ranked.h"

#include "kit/fakehost.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static lam_status answer; /* of the host */

static lam_status fake_ranks(void *self, const char *path, const lam_ranks_look *look, lam_ranks **out,
                             lam_error *e) {
    ranked of = ranked_run();
    (void)self;
    of.slow = 11;
    of.more_us = 20000;
    *out = NULL;
    assert_string_equal(path, folder);
    if (answer != LAM_OK) {
        e->status = answer;
        snprintf(e->text, sizeof e->text, "%s/steps/n00-0.parquet: it was cut", path);
        return answer;
    }
    *out = ranked_judged(&of, NULL, e);
    lam_status s = *out ? LAM_OK : e->status;
    if (s == LAM_OK && look) s = lam_ranks_look_at(*out, look, ranked_layers, &of, e);
    if (s == LAM_OK) return LAM_OK;
    lam_ranks_free(*out);
    *out = NULL;
    return s;
}

static int on(const char *words, bool host_reads) {
    char line[160];
    lam_host host = fake_host();
    host.ranks = host_reads ? fake_ranks : NULL;
    snprintf(line, sizeof line, words, folder);
    return fake_run(&host, line);
}

static int make_run(void **state) {
    char ranks[80];
    (void)state;
    snprintf(folder, sizeof folder, "%s/lamina-ranks-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder)) return -1;
    snprintf(ranks, sizeof ranks, "%s/ranks", folder);
    return mkdir(ranks, 0700);
}

static int remove_run(void **state) {
    char ranks[80];
    (void)state;
    snprintf(ranks, sizeof ranks, "%s/ranks", folder);
    rmdir(ranks);
    return rmdir(folder);
}

static void a_run_is_shown(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("show %s", true), 0);
    OUT_HAS("! Rank 11 slows all: without it a step would take ");
    ERR_IS_EMPTY();
    assert_int_equal(on("%s", true), 0); /* `show` may be left out */
    OUT_HAS("! Rank 11 slows all");
    assert_int_equal(on("show %s --json", true), 0);
    OUT_HAS("{\"schema\": \"lamina.ranks/1\", \"schema_version\": 1, \"version\": \"");
    assert_int_equal(on("show %s -n 2", true), 0);
    OUT_HAS("who is last");
    assert_int_equal(fake_lives, 0);
}

static void what_a_run_has_not_is_refused(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("show %s --rf", true), 2);
    ERR_HAS("is the folder of a run, and --rf is for models");
    assert_int_equal(on("show %s net:net", true), 2);
    ERR_HAS("the folder of a run is shown alone");
    assert_int_equal(on("show %s --format csv", true), 2);
    ERR_HAS("there is no format 'csv' for a run's folder; there are: text, json");
}

static void one_of_a_run_is_shown(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("show %s --rank 11", true), 0);
    OUT_HAS("Rank 11 on n01");
    assert_int_equal(on("show %s --node n00 --json", true), 0);
    OUT_HAS("\"node\": \"n00\"");
    assert_int_equal(on("show %s --rank 16", true), 2);
    ERR_HAS("there is no rank 16 in this run: its ranks are 0..15");
    assert_int_equal(on("show %s --rank 1 --layers", true), 2);
    ERR_HAS("--rank, --node and --layers each show something else");
    assert_int_equal(on("show net:net --rank 1", true), 2);
    ERR_HAS("--rank is for a run of many ranks, and net:net is a model");
}

static void a_run_is_reported_as_a_page(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("report %s", true), 0);
    OUT_HAS("Rank 11 slows all</h1>");
    assert_int_equal(on("show %s --format html", true), 0);
    OUT_HAS("Rank 11 slows all</h1>");
    assert_int_equal(on("show %s --format html --rank 1", true), 2);
    ERR_HAS("a page is of the whole run, and --rank of a part");
    assert_int_equal(on("report %s --backward", true), 2);
    ERR_HAS("is the folder of a run, and --backward is for models");
    assert_int_equal(on("report %s net:net", true), 2);
    ERR_HAS("the folder of a run is shown alone");
    answer = LAM_IO;
    assert_int_equal(on("report %s", true), 3);
    ERR_HAS("n00-0.parquet: it was cut");
    assert_int_equal(on("report %s/ranks", true), 3);
    ERR_HAS("this folder is neither a run's nor a model's");
}

static void a_run_that_cant_be_read_is_a_file_that_failed(void **state) {
    static const lam_status all[] = {LAM_SYNTAX, LAM_USAGE, LAM_UNSUPPORTED, LAM_IO};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        answer = all[i];
        assert_int_equal(on("show %s", true), 3);
        ERR_HAS("n00-0.parquet: it was cut");
    }
    assert_int_equal(on("show %s", false), 3);
    ERR_HAS("this command has no Python");
}

static void a_folder_without_ranks_is_no_run(void **state) {
    (void)state;
    assert_int_equal(on("show %s/ranks", true), 3);
    ERR_HAS("this folder is neither a run's nor a model's");
}

static void a_run_is_held_against_limits(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("check %s --max straggler=5%% --max input=2%%", true), 1);
    OUT_HAS(": over budget\n  straggler  16 % of a step, over 5%\n      Rank 11 slows all: without it a step "
            "would take 16 %");
    OUT_HAS("\n  input      1.0 % of a step, within 2%\n");
    ERR_IS_EMPTY();
    assert_int_equal(on("check %s --max straggler=20%%", true), 0);
    OUT_HAS(": within budget\n  straggler  16 % of a step, within 20%\n");
    assert_int_equal(on("check %s --max input=0.1%% --format md", true), 1);
    OUT_HAS(
        "| input | **failed**: 1.0 % of a step, over 0.1% |\n\n- input: of the median rank; longest waits "
        "rank ");
    assert_int_equal(on("check %s --max straggler=5%% --json", true), 1);
    OUT_HAS("\"ranks\": [11], \"nodes\": []");
    answer = LAM_USAGE;
    assert_int_equal(on("check %s --max straggler=5%%", true), 3);
    ERR_HAS("n00-0.parquet: it was cut");
    answer = LAM_OK;
    assert_int_equal(on("check %s --max straggler=5%%", false), 3);
    ERR_HAS("this command has no Python");
    assert_int_equal(fake_lives, 0);
}

static void limits_fit_what_they_are_of(void **state) {
    (void)state;
    answer = LAM_OK;
    assert_int_equal(on("check %s --max macs=2G", true), 2);
    ERR_HAS("macs=2G: it is a limit of a model, and ");
    ERR_HAS(" is the folder of a run, which has the limits straggler and input");
    assert_int_equal(on("check %s --max straggler=5%% --max macs=2G", true), 2);
    ERR_HAS("straggler: it is of recordings, and macs of one run; make two checks of them");
    assert_int_equal(on("check %s --max straggler=5%% --save a.json", true), 2);
    ERR_HAS("it is the folder of a run, and --save is for models");
    assert_int_equal(on("check %s --max straggler=5%% -i 1x3", true), 2);
    ERR_HAS("and --input is for models");
    assert_int_equal(on("check %s", true), 2);
    ERR_HAS("give --max straggler=5% or --max input=10%");
    assert_int_equal(on("check %s net:net --max straggler=5%%", true), 2);
    ERR_HAS("net:net: one operand too many");
    assert_int_equal(on("check %s --max straggler=5", true), 2);
    ERR_HAS("straggler needs a unit; there are: %");
    assert_int_equal(on("check %s/ranks --max straggler=5%%", true), 2);
    ERR_HAS("this folder is neither a run's nor a model's");
    assert_int_equal(on("check net:net --max straggler=5%%", true), 2);
    ERR_HAS("straggler=5%: it is a limit of recordings (run.*.lamina) and of a run's folder, and net:net is "
            "neither");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_held_against_limits),
        cmocka_unit_test(limits_fit_what_they_are_of),
        cmocka_unit_test(a_run_is_shown),
        cmocka_unit_test(what_a_run_has_not_is_refused),
        cmocka_unit_test(one_of_a_run_is_shown),
        cmocka_unit_test(a_run_is_reported_as_a_page),
        cmocka_unit_test(a_run_that_cant_be_read_is_a_file_that_failed),
        cmocka_unit_test(a_folder_without_ranks_is_no_run),
    };
    return cmocka_run_group_tests(tests, make_run, remove_run);
}
