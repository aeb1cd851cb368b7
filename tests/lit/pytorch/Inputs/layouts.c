/* layouts.c: where the C compiler puts what the Python package declares, a line for each. */
#include <lockstep/lockstep.h>

#include <stddef.h>
#include <stdio.h>

#define FIELD(type, field) \
    printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field))
#define NUMBER(name) printf(#name " %d\n", (int)(name))

int main(void) {
    FIELD(ls_tensor, data);
    FIELD(ls_tensor, type);
    FIELD(ls_tensor, rank);
    FIELD(ls_tensor, shape);
    FIELD(ls_tensor, strides);
    FIELD(ls_image_term, operation);
    FIELD(ls_image_term, value);
    FIELD(ls_image_axis, name);
    FIELD(ls_image_axis, fixed);
    FIELD(ls_image_axis, parent);
    FIELD(ls_image_axis, whole);
    FIELD(ls_image_axis, length);
    FIELD(ls_image_axis, terms);
    FIELD(ls_image_axis, term_count);
    FIELD(ls_image_parameter, name);
    FIELD(ls_image_parameter, role);
    FIELD(ls_image_parameter, type);
    FIELD(ls_image_parameter, rank);
    FIELD(ls_image_parameter, axes);
    FIELD(ls_image_parameter, has_default);
    FIELD(ls_image_parameter, initial);
    FIELD(ls_image_parameter, line);
    FIELD(ls_image_parameter, optional);
    FIELD(ls_image, version);
    FIELD(ls_image, step);
    FIELD(ls_image, target);
    FIELD(ls_image, source_file);
    FIELD(ls_image, numeric_version);
    FIELD(ls_image, math);
    FIELD(ls_image, axis_count);
    FIELD(ls_image, axes);
    FIELD(ls_image, parameter_count);
    FIELD(ls_image, parameters);
    FIELD(ls_image, variant_count);
    FIELD(ls_image, variants);
    FIELD(ls_image, draws);
    FIELD(ls_image, line);
    FIELD(ls_image, tuning_count);
    FIELD(ls_image, tunings);
    FIELD(ls_image, part_count);
    FIELD(ls_image, loop_count);
    FIELD(ls_image, parts);
    FIELD(ls_image, loops);
    FIELD(ls_compile_options, defines);
    FIELD(ls_compile_options, define_count);
    FIELD(ls_compile_options, math);
    FIELD(ls_compile_options, dump);
    FIELD(ls_compile_options, no_cache);
    FIELD(ls_compile_options, no_tuning);
    FIELD(ls_compile_options, all_forms);
    FIELD(ls_compile_options, import_paths);
    FIELD(ls_compile_options, import_path_count);
    FIELD(ls_compile_options, sources);
    FIELD(ls_compile_options, source_count);
    FIELD(ls_compile_options, index);
    FIELD(ls_explain_options, report);
    FIELD(ls_explain_options, sizes);
    FIELD(ls_explain_options, size_count);
    FIELD(ls_explain_options, targets);
    FIELD(ls_explain_options, target_count);
    FIELD(ls_explain_options, peak_gb_s);
    FIELD(ls_explain_options, plan_only);
    FIELD(ls_explain_options, processors);
    FIELD(ls_explain_options, ranks);
    FIELD(ls_explain_options, cut);
    FIELD(ls_explain_options, between);
    FIELD(ls_explain_options, slots);
    FIELD(ls_explain_options, link_gbit_s);
    FIELD(ls_explain_options, gather);
    FIELD(ls_explain_options, gather_count);
    FIELD(ls_kernels_options, level);
    FIELD(ls_kernels_options, path);
    FIELD(ls_kernels_options, steps);
    FIELD(ls_kernels_options, step_count);
    FIELD(ls_kernels_options, packed);
    FIELD(ls_kernels_options, contiguous);
    FIELD(ls_kernels_options, progress);
    FIELD(ls_kernels_options, user);
    FIELD(ls_graph_statistics, native);
    FIELD(ls_graph_statistics, loops);
    FIELD(ls_graph_statistics, launches);
    FIELD(ls_graph_statistics, nodes);
    FIELD(ls_graph_statistics, replays);
    FIELD(ls_graph_statistics, updates);
    FIELD(ls_graph_statistics, updated);
    FIELD(ls_graph_statistics, reinstantiations);
    printf("ls_tensor %zu\n", sizeof(ls_tensor));
    printf("ls_image_term %zu\n", sizeof(ls_image_term));
    printf("ls_image_axis %zu\n", sizeof(ls_image_axis));
    printf("ls_image_parameter %zu\n", sizeof(ls_image_parameter));
    printf("ls_image %zu\n", sizeof(ls_image));
    printf("ls_compile_options %zu\n", sizeof(ls_compile_options));
    printf("ls_explain_options %zu\n", sizeof(ls_explain_options));
    printf("ls_kernels_options %zu\n", sizeof(ls_kernels_options));
    printf("ls_graph_statistics %zu\n", sizeof(ls_graph_statistics));
    NUMBER(LS_IMAGE_VERSION);
    NUMBER(LS_OK);
    NUMBER(LS_ERROR_ARGUMENT);
    NUMBER(LS_ERROR_PROGRAM);
    NUMBER(LS_IN);
    NUMBER(LS_INOUT);
    NUMBER(LS_OUT);
    NUMBER(LS_TERM_NUMBER);
    NUMBER(LS_TERM_AXIS);
    NUMBER(LS_TERM_ADD);
    NUMBER(LS_TERM_SUBTRACT);
    NUMBER(LS_TERM_MULTIPLY);
    NUMBER(LS_TERM_DIVIDE);
    NUMBER(LS_TERM_REMAINDER);
    NUMBER(LS_REPORT_TEXT);
    NUMBER(LS_REPORT_JSON);
    NUMBER(LS_REPORT_DOT);
    NUMBER(LS_REPORT_SCHEDULES);
    NUMBER(LS_TYPE_COUNT);
    for (int type = 0; type < LS_TYPE_COUNT; type++)
        printf("type %d %s %zu\n", type, ls_type_name((ls_type)type), ls_type_size((ls_type)type));
    return 0;
}
