/* products_gpu.c: matrix products on a GPU, through cuBLAS or rocBLAS, loaded when first needed.
 *
 * Both are column-major: a row-major C = A B is their C' = B' A', so the operands change places.
 * Products of a batch go through arrays of pointers, since the heads of attention are columns of
 * one matrix and no single stride leads from one to the next. */
#include "charlm.h"
#include "gpu_blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_BYTES = 32 << 20, CALLS = 6 };

typedef struct Vendor {
    const char *title, *missing;
    const char *libraries[6];
    const char *folders[6];   /* where else to look; may begin with a variable of the environment */
    const char *calls[CALLS]; /* create, destroy, stream, workspace (may be missing), gemm, batch */
    int as_it_is, transposed, f32, bf16, f16, compute_f32, algorithm;
} Vendor;

static const Vendor cuda = {
    .title = "cuBLAS",
    .missing = "it comes with the CUDA toolkit",
    .libraries = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"},
    .folders = {"$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64", "/opt/cuda/lib64"},
    .calls = {"cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2",
              "cublasGemmEx", "cublasGemmBatchedEx"},
    .as_it_is = CUBLAS_AS_IT_IS,
    .transposed = CUBLAS_TRANSPOSED,
    .f32 = CUBLAS_F32,
    .bf16 = CUBLAS_BF16,
    .f16 = CUBLAS_F16,
    .compute_f32 = CUBLAS_COMPUTES_F32,
    .algorithm = CUBLAS_ALGORITHM,
};

static const Vendor hip = {
    .title = "rocBLAS",
    .missing = "it comes with ROCm",
    .libraries = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0",
                  "librocblas.so"},
    .folders = {"$ROCM_PATH/lib", "/opt/rocm/lib"},
    .calls = {"rocblas_create_handle", "rocblas_destroy_handle", "rocblas_set_stream",
              "rocblas_set_workspace", "rocblas_gemm_ex", "rocblas_gemm_batched_ex"},
    .as_it_is = ROCBLAS_AS_IT_IS,
    .transposed = ROCBLAS_TRANSPOSED,
    .f32 = ROCBLAS_F32,
    .bf16 = ROCBLAS_BF16,
    .f16 = ROCBLAS_F16,
    .compute_f32 = ROCBLAS_F32,
    .algorithm = ROCBLAS_ALGORITHM,
};

struct GpuProducts {
    ls_context *context;
    const Vendor *vendor;
    void *library, *handle, *workspace;
    CreateFunction *create;
    DestroyFunction *destroy;
    StreamFunction *set_stream;
    WorkspaceFunction *set_workspace;
    union {
        CudaGemm *cuda;
        RocGemm *roc;
    } gemm;
    union {
        CudaBatch *cuda;
        RocBatch *roc;
    } batch;
    char name[128];
};

/* The libraries work on what is current on the thread; Lockstep leaves that as it finds it. */
static bool make_current(ls_context *context) {
    const bool is_cuda = ls_context_kind(context) == LS_DEVICE_CUDA;
    const char *own = getenv(is_cuda ? "LOCKSTEP_CUDA" : "LOCKSTEP_HIP");
    const char *names[] = {own, is_cuda ? "libcuda.so.1" : "libamdhip64.so.7",
                           is_cuda ? NULL : "libamdhip64.so.6", is_cuda ? NULL : "libamdhip64.so.5",
                           is_cuda ? NULL : "libamdhip64.so"};
    const char *colon = strchr(ls_context_device(context), ':');
    const int index = colon ? atoi(colon + 1) : 0;
    void *library = NULL, *found[3] = {NULL}, *current = NULL;
    for (size_t i = 0; i < COUNT(names) && !library; i++)
        if (names[i] && *names[i]) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail("the driver's library cannot be loaded: %s", dlerror());
    int (*get)(int *, int), (*retain)(void **, int), (*use)(void *), (*use_device)(int);
    static const char *const cuda_calls[] = {"cuDeviceGet", "cuDevicePrimaryCtxRetain",
                                             "cuCtxSetCurrent"};
    for (int i = 0; i < 3; i++) found[i] = dlsym(library, is_cuda ? cuda_calls[i] : "hipSetDevice");
    if (!found[0] || !found[1] || !found[2]) return fail("the driver lacks a call");
    memcpy(&get, &found[0], sizeof get);
    memcpy(&retain, &found[1], sizeof retain);
    memcpy(&use, &found[2], sizeof use);
    memcpy(&use_device, &found[0], sizeof use_device);
    int device = 0;
    const bool done =
        is_cuda ? get(&device, index) == 0 && retain(&current, device) == 0 && use(current) == 0
                : use_device(index) == 0;
    return done || fail("%s could not be made the thread's device", ls_context_device(context));
}

/* A library in one of a toolkit's folders, which ld.so need not know: those that begin with a
 * variable, or the others. */
static void *open_in_folders(const Vendor *vendor, bool variables, char *name, size_t size) {
    for (size_t i = 0; i < COUNT(vendor->folders) && vendor->folders[i]; i++) {
        const char *folder = vendor->folders[i], *value = "";
        const size_t length = strcspn(folder, "/");
        if ((*folder == '$') != variables) continue;
        if (*folder == '$') {
            char variable[32];
            snprintf(variable, sizeof variable, "%.*s", (int)length - 1, folder + 1);
            value = getenv(variable);
            folder += length;
            if (!value || !*value) continue;
        }
        for (size_t k = 0; k < COUNT(vendor->libraries) && vendor->libraries[k]; k++) {
            if ((size_t)snprintf(name, size, "%s%s/%s", value, folder, vendor->libraries[k]) >=
                size)
                continue;
            void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (library) return library;
        }
    }
    return NULL;
}

static bool load(GpuProducts *products, const char *library) {
    const Vendor *vendor = products->vendor;
    const char *name = library;
    char path[512];
    void *found[CALLS];
    if (library) products->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (library && !products->library) return fail("--blas: %s", dlerror());
    if (!products->library) /* what somebody names comes before what ld.so knows */
        products->library = open_in_folders(vendor, true, path, sizeof path), name = path;
    for (size_t i = 0; !products->library && i < COUNT(vendor->libraries); i++)
        if (vendor->libraries[i])
            products->library = dlopen(name = vendor->libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!products->library)
        products->library = open_in_folders(vendor, false, path, sizeof path), name = path;
    if (!products->library)
        return fail("%s was not found: %s; --blas names the library, --device cpu does without",
                    vendor->title, vendor->missing);
    for (int i = 0; i < CALLS; i++) {
        found[i] = dlsym(products->library, vendor->calls[i]);
        if (!found[i] && i != 3) return fail("%s lacks %s", name, vendor->calls[i]);
    }
    memcpy(&products->create, &found[0], sizeof found[0]);
    memcpy(&products->destroy, &found[1], sizeof found[0]);
    memcpy(&products->set_stream, &found[2], sizeof found[0]);
    memcpy(&products->set_workspace, &found[3], sizeof found[0]);
    memcpy(&products->gemm, &found[4], sizeof found[0]);
    memcpy(&products->batch, &found[5], sizeof found[0]);
    snprintf(products->name, sizeof products->name, "%s (%.100s)", vendor->title, name);
    return true;
}

static bool check(const GpuProducts *products, int status, const char *what) {
    return status == 0 || fail("%s: %s gave error %d", what, products->vendor->title, status);
}

/* Workspace of our own: none is allocated while a graph is captured. */
static bool open_handle(GpuProducts *products) {
    ls_context *context = products->context;
    if (!check(products, products->create(&products->handle), "creating its handle") ||
        !check(products, products->set_stream(products->handle, ls_context_stream(context)),
               "setting its stream"))
        return false;
    if (!products->set_workspace) return true;
    if (ls_alloc(context, WORKSPACE_BYTES, &products->workspace) != LS_OK)
        return fail("allocating the workspace of products: %s", ls_error_message(context));
    return check(products,
                 products->set_workspace(products->handle, products->workspace, WORKSPACE_BYTES),
                 "setting its workspace");
}

bool gpu_products_open(ls_context *context, const char *library, GpuProducts **products) {
    *products = calloc(1, sizeof **products);
    if (!*products) return fail("out of host memory");
    (*products)->context = context;
    (*products)->vendor = ls_context_kind(context) == LS_DEVICE_CUDA ? &cuda : &hip;
    return make_current(context) && load(*products, library) && open_handle(*products);
}

void gpu_products_close(GpuProducts *products) {
    ls_synchronize(products->context);
    if (products->handle) products->destroy(products->handle);
    if (products->workspace) ls_free(products->context, products->workspace);
    free(products);
}

const char *gpu_products_name(const GpuProducts *products) {
    return products->name;
}

static int number_of(const Vendor *vendor, ls_type type) {
    return type == LS_F32 ? vendor->f32 : type == LS_F16 ? vendor->f16 : vendor->bf16;
}

bool gpu_product_run(GpuProducts *products, const Product *product) {
    const Vendor *v = products->vendor;
    const Matrix *a = &product->b, *b = &product->a, *c = &product->c; /* column-major */
    const float one = 1, beta = product->add ? 1 : 0;
    const int turn_a = a->turned ? v->transposed : v->as_it_is;
    const int turn_b = b->turned ? v->transposed : v->as_it_is;
    const int m = (int)c->columns, n = (int)c->rows;
    const int k = (int)(b->turned ? b->rows : b->columns);
    const int count = (int)(product->outer * product->inner);
    const int type_a = number_of(v, a->type);
    const int type_b = number_of(v, b->type);
    const int type_c = number_of(v, c->type);
    const int lda = (int)a->stride, ldb = (int)b->stride, ldc = (int)c->stride;
    void *const *batch = product->pointers; /* c, a, b */
    void *handle = products->handle;
    int status;
    if (v == &cuda && count == 1)
        status = products->gemm.cuda(handle, turn_a, turn_b, m, n, k, &one, a->data, type_a, lda,
                                     b->data, type_b, ldb, &beta, c->data, type_c, ldc,
                                     v->compute_f32, v->algorithm);
    else if (v == &cuda)
        status = products->batch.cuda(handle, turn_a, turn_b, m, n, k, &one, batch[2], type_a, lda,
                                      batch[1], type_b, ldb, &beta, batch[0], type_c, ldc, count,
                                      v->compute_f32, v->algorithm);
    else if (count == 1)
        status = products->gemm.roc(handle, turn_a, turn_b, m, n, k, &one, a->data, type_a, lda,
                                    b->data, type_b, ldb, &beta, c->data, type_c, ldc, c->data,
                                    type_c, ldc, v->compute_f32, v->algorithm, 0, 0);
    else
        status = products->batch.roc(handle, turn_a, turn_b, m, n, k, &one, batch[2], type_a, lda,
                                     batch[1], type_b, ldb, &beta, batch[0], type_c, ldc, batch[0],
                                     type_c, ldc, count, v->compute_f32, v->algorithm, 0, 0);
    return check(products, status,
                 a->type == LS_BF16 ? "a matrix product of bf16 (--type f32 may do)"
                                    : "a matrix product");
}
