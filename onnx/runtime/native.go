package runtime

/*
#cgo linux LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The two members of OrtApiBase, fixed since the first release of ONNX Runtime.
typedef struct {
	const void *(*get_api)(uint32_t version);
	const char *(*get_version)(void);
} jempipe_api_base;

// Opens a shared library and asks it for its version and its file. Gives NULL and no error text when it has no
// OrtGetApiBase. The texts are copies: dlerror is bound to the thread, and Go may change threads between two calls.
static void *jempipe_open(const char *name, char **version, char **file, char **error) {
	*version = *file = *error = NULL;
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *text = dlerror();
		*error = strdup(text ? text : "unknown error");
		return NULL;
	}
	const jempipe_api_base *(*get_base)(void) = dlsym(handle, "OrtGetApiBase");
	const jempipe_api_base *base = get_base ? get_base() : NULL;
	const char *text = base && base->get_version ? base->get_version() : NULL;
	if (!text) {
		dlclose(handle);
		return NULL;
	}
	*version = strdup(text);
	Dl_info info;
	if (dladdr((void *)get_base, &info) && info.dli_fname) *file = strdup(info.dli_fname);
	return handle;
}

static int jempipe_has_api(void *handle, uint32_t version) {
	const jempipe_api_base *(*get_base)(void) = dlsym(handle, "OrtGetApiBase");
	return get_base()->get_api(version) != NULL;
}

#ifndef NSIG
#define NSIG 65
#endif
static struct sigaction jempipe_signals[NSIG];
static int jempipe_known[NSIG];

static void jempipe_save_signals(void) {
	for (int i = 1; i < NSIG; i++) jempipe_known[i] = sigaction(i, NULL, &jempipe_signals[i]) == 0;
}

static void jempipe_restore_signals(void) {
	for (int i = 1; i < NSIG; i++) {
		struct sigaction now;
		const struct sigaction *was = &jempipe_signals[i];
		if (!jempipe_known[i] || sigaction(i, NULL, &now) != 0) continue;
		if (now.sa_sigaction != was->sa_sigaction || now.sa_flags != was->sa_flags) sigaction(i, was, NULL);
	}
}
*/
import "C"

import (
	"errors"
	"sync"
	"unsafe"
)

var errNoEntry = errors.New("it is a shared library, but not ONNX Runtime (it has no OrtGetApiBase)")

// shared is an open ONNX Runtime library.
type shared struct {
	handle        unsafe.Pointer
	version, file string
}

// openShared opens a library by path or by a name that the system loader resolves. Its symbols stay local.
func openShared(name string) (*shared, error) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var version, file, message *C.char
	defer func() {
		C.free(unsafe.Pointer(version))
		C.free(unsafe.Pointer(file))
		C.free(unsafe.Pointer(message))
	}()
	var handle unsafe.Pointer
	keepSignals(func() { handle = C.jempipe_open(cName, &version, &file, &message) })
	switch {
	case handle != nil:
		return &shared{handle: handle, version: C.GoString(version), file: C.GoString(file)}, nil
	case message != nil:
		return nil, errors.New(C.GoString(message))
	}
	return nil, errNoEntry
}

// hasAPI says whether the library offers a version of the C API. A library that is too old prints a line to standard
// error when it is asked, so the version text is compared first.
func (s *shared) hasAPI(version uint32) bool {
	return C.jempipe_has_api(s.handle, C.uint32_t(version)) != 0
}

func (s *shared) close() { C.dlclose(s.handle) }

var signals sync.Mutex

// keepSignals runs fn and then puts back the signal handlers that fn has replaced. Libraries of accelerators install
// handlers without the alternate stack that Go's need: the next Ctrl-C would then kill the process with a fault of
// the Go runtime.
func keepSignals(fn func()) {
	signals.Lock()
	defer signals.Unlock()
	C.jempipe_save_signals()
	defer C.jempipe_restore_signals()
	fn()
}
