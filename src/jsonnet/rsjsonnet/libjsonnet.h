#pragma once
// The part of libjsonnet's interface that combu uses, in the form of release 0.19 and later
// (https://github.com/google/jsonnet/blob/v0.20.0/include/libjsonnet.h). Not thread-safe.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct JsonnetVm;

// Differences from libjsonnet:
// - If an error occurs while the result is written, its report ends with lines "\tarray item 3" or "\tfield <command>"
//   that locate the faulty value.
// - An imported file may contain any bytes. import and importstr refuse a file that is not text.
#define COMBU_JSONNET_RSJSONNET 1

// The callback returns 0 and sets the path and the bytes of the imported file. On failure, it returns 1, and the bytes
// are the error message. The memory comes from jsonnet_realloc() and belongs to the evaluator afterwards.
typedef int JsonnetImportCallback(void *context, const char *folder, const char *wanted, char **found_here,
                                  char **buffer, size_t *length);

const char *jsonnet_version(void);
struct JsonnetVm *jsonnet_make(void);
void jsonnet_destroy(struct JsonnetVm *vm);
char *jsonnet_realloc(struct JsonnetVm *vm, char *buffer, size_t size);  // size 0 frees the buffer
void jsonnet_import_callback(struct JsonnetVm *vm, JsonnetImportCallback *callback, void *context);
void jsonnet_ext_var(struct JsonnetVm *vm, const char *name, const char *value);
void jsonnet_ext_code(struct JsonnetVm *vm, const char *name, const char *code);
void jsonnet_tla_var(struct JsonnetVm *vm, const char *name, const char *value);
void jsonnet_tla_code(struct JsonnetVm *vm, const char *name, const char *code);
// Returns JSON, or an error report in the form of libjsonnet.
char *jsonnet_evaluate_snippet(struct JsonnetVm *vm, const char *name, const char *code, int *failed);

#ifdef __cplusplus
}
#endif
