#pragma once
// What combu uses of libjsonnet's interface, as release 0.19 and later have it
// (https://github.com/google/jsonnet/blob/v0.20.0/include/libjsonnet.h). One thread at a time.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct JsonnetVm;

// What it does beyond libjsonnet: an account of an error that came up while the result was written ends with a line
// "\tarray item 3" or "\tfield <command>" for each that it lies in. What is imported may hold any bytes; import and
// importstr refuse what is no text.
#define COMBU_JSONNET_RSJSONNET 1

// The callback gives what it has found in memory from jsonnet_realloc(), which becomes the evaluator's: where it
// stands, and its bytes; or returns 1, and the bytes say why there is nothing.
typedef int JsonnetImportCallback(void *context, const char *folder, const char *wanted, char **found_here,
                                  char **buffer, size_t *length);

const char *jsonnet_version(void);
struct JsonnetVm *jsonnet_make(void);
void jsonnet_destroy(struct JsonnetVm *vm);
char *jsonnet_realloc(struct JsonnetVm *vm, char *buffer, size_t size);  // of size 0: frees it
void jsonnet_import_callback(struct JsonnetVm *vm, JsonnetImportCallback *callback, void *context);
void jsonnet_ext_var(struct JsonnetVm *vm, const char *name, const char *value);
void jsonnet_ext_code(struct JsonnetVm *vm, const char *name, const char *code);
void jsonnet_tla_var(struct JsonnetVm *vm, const char *name, const char *value);
void jsonnet_tla_code(struct JsonnetVm *vm, const char *name, const char *code);
// JSON, or what is wrong and where, as libjsonnet writes it.
char *jsonnet_evaluate_snippet(struct JsonnetVm *vm, const char *name, const char *code, int *failed);

#ifdef __cplusplus
}
#endif
