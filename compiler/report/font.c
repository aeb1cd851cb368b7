/* font.c: how wide text is at most, so that a drawing has room for it.
 *
 * Graphviz lays text out with the metrics of whatever font it finds, rounded to pixels, and who
 * looks at the drawing has another font: the families it names are Helvetica and Courier, or what
 * stands in for them. The widest that commonly do are DejaVu Sans and DejaVu Sans Mono, whose
 * advance widths these are. */
#include <locale.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { FIRST = ' ', LAST = '~', FIXED_WIDTH = 603 }; /* thousandths of the font's size */

static const uint16_t plain[LAST - FIRST + 1] = {
    318, 401, 460, 838, 637, 951, 780, 275, 391, 391, 500, 838, 318, 361,  318, 337, 637, 637, 637,
    637, 637, 637, 637, 637, 637, 637, 337, 337, 838, 838, 838, 531, 1000, 685, 687, 699, 771, 632,
    576, 775, 752, 295, 295, 656, 558, 863, 749, 788, 604, 788, 695, 635,  611, 732, 685, 989, 686,
    611, 686, 391, 337, 391, 838, 500, 500, 613, 635, 550, 635, 616, 353,  635, 634, 278, 278, 580,
    278, 975, 634, 612, 635, 635, 412, 521, 393, 634, 592, 818, 592, 592,  525, 637, 337, 637, 838};
static const uint16_t bold[LAST - FIRST + 1] = {
    349,  457, 521, 838, 696, 1002, 873, 307,  458, 458, 523, 838, 380, 416,  380, 366,
    696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 581,
    1000, 774, 763, 734, 831, 684,  684, 821,  837, 373, 373, 775, 638, 996,  837, 851,
    733,  851, 771, 721, 683, 813,  774, 1104, 771, 725, 726, 458, 366, 458,  838, 500,
    500,  675, 716, 593, 716, 679,  436, 716,  712, 343, 343, 666, 343, 1042, 712, 688,
    716,  716, 494, 596, 479, 712,  652, 924,  646, 652, 583, 712, 366, 712,  838};

double report_text_width(const char *text, size_t size, Face face, double points) {
    double width = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool known = c >= FIRST && c <= LAST;
        width += face == FACE_FIXED ? FIXED_WIDTH
                 : !known           ? 1000
                                    : (face == FACE_BOLD ? bold : plain)[c - FIRST];
    }
    return width * points / 1000;
}
