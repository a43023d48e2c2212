/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a page as one element, for a notebook or another page: its style applies only inside it, it has
 * no script, no id and no heading, and a document may have it twice. */
#include "report/page/page.h"

/* The first rule of report.css has the colours; the rules after it are nested in the class, up to those of
 * the page alone. The class is named three times, so that these rules override a notebook's own rules on
 * tables. */
static void put_style(lmi_buf *b) {
    const char *css = (const char *)lmi_page_css, *colours = strchr(css, '{') + 1;
    const char *rules = strchr(colours, '}') + 1, *end = strstr(rules, "/* Of the page alone. */");
    lmi_put(b, "<style>.lamina{");
    lmi_putn(b, colours, (size_t)(rules - colours));
    /* Notebooks mark their theme by an attribute: Jupyter's, VS Code's, Colab's, those of documentation. */
    lmi_put(b,
            "\n:is([data-jp-theme-light=false],.vscode-dark,.vscode-high-contrast,[theme=dark],"
            "[data-theme=dark],[data-bs-theme=dark]) .lamina{color-scheme:dark}\n"
            ":is([data-jp-theme-light=true],.vscode-light,.vscode-high-contrast-light,[theme=light],"
            "[data-theme=light],[data-bs-theme=light]) .lamina{color-scheme:light}\n"
            ".lamina{position:relative;padding:16px;border-radius:8px;background:var(--bg);color:var(--txt);"
            "font:14px/1.5 var(--sans);text-align:left}\n"
            ".lamina.lamina.lamina{\n"
            "tr,thead,tbody{background:none;border:0}table{margin:0;table-layout:auto}"
            "th,td{vertical-align:baseline;line-height:1.5;border-width:0 0 1px;max-width:none}"
            "code{background:none;color:inherit;padding:0}");
    lmi_putn(b, rules, (size_t)(end - rules));
    lmi_put(b, ".h1{font-size:22px}.tiles{margin:12px 0}.scroll,.crumb{margin-top:12px}.fig{overflow:auto}"
               ".wr{white-space:normal;min-width:20em}.ln{white-space:pre-line}"
               ".fig svg{min-width:640px}@media screen{.scroll{max-height:480px}}}</style>\n");
}

void lmi_part_begin(lmi_buf *b, const char *label) {
    lmi_putf(b, "<div class=\"lamina\" role=\"group\" aria-label=\"lamina: %s\">", label);
    put_style(b);
}

void lmi_part_end(lmi_buf *b) { lmi_put(b, "</div>\n"); }
