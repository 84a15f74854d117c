package outputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// fileWrites lets one WriteFileAtomic of this process go at a time, since they share names of temporary files.
var fileWrites sync.Mutex

// WriteFileAtomic writes a file such that its name holds either the former content or all of the new, also after a
// crash or a full disk. Its folder is made where it is missing.
func WriteFileAtomic(path string, data []byte) error {
	fileWrites.Lock()
	defer fileWrites.Unlock()
	path, err := filepath.Abs(path)
	if err != nil {
		return unwritable(path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return unwritable(path, err)
	}
	sweepFiles(path)
	temp := hidden(path, "tmp")
	if err := writeSynced(temp, data); err != nil {
		os.Remove(temp)
		return unwritable(path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return unwritable(path, err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return unwritable(path, err)
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// sweepFiles removes temporary files that dead processes left beside path. It is housekeeping: failure is no error.
func sweepFiles(path string) {
	parent, base := filepath.Split(path)
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "."+base+".tmp-")
		if pid, err := strconv.Atoi(text); ok && err == nil && e.Type().IsRegular() && !alive(pid) {
			os.Remove(filepath.Join(parent, e.Name()))
		}
	}
}

// syncTree syncs every file and directory below root, and root.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || e.Type().IsRegular() {
			return syncDir(path)
		}
		return nil
	})
}

// syncDir syncs one file or directory. Some file systems cannot sync a directory; they order renames by themselves.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
