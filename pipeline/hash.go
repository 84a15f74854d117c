package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jempipe/jempipe/outputs"
)

// stamp is what a file's content hash is kept by: while none of it changes, the content is taken as unchanged.
type stamp struct {
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime_ns"`
	CTime int64  `json:"ctime_ns"`
	Inode uint64 `json:"inode"`
}

type hashed struct {
	stamp
	SHA256 string `json:"sha256"`
}

// hasher hashes files, and remembers the hashes in RUN/.cache/hashes.json so that an up-to-date run reads no data.
type hasher struct {
	root  string            // run directory
	known map[string]hashed // as read from the cache file
	used  map[string]hashed // what this process asked for: the next content of the cache file
	dirty bool
}

func cachePath(runDir string) string { return filepath.Join(runDir, ".cache", "hashes.json") }

// openHasher reads the cache of a run. One that is missing or damaged counts as empty.
func openHasher(runDir string) *hasher {
	h := &hasher{root: runDir, known: map[string]hashed{}, used: map[string]hashed{}}
	if text, err := os.ReadFile(cachePath(runDir)); err == nil {
		if json.Unmarshal(text, &h.known) != nil {
			h.known = map[string]hashed{}
		}
	}
	return h
}

// save writes the cache where it has changed. Entries that were not asked for stay while their file is as it was.
func (h *hasher) save() error {
	for key, c := range h.known {
		if _, ok := h.used[key]; ok {
			continue
		}
		if s, err := stampOf(h.path(key)); err == nil && s == c.stamp {
			h.used[key] = c
		} else {
			h.dirty = true
		}
	}
	if !h.dirty {
		return nil
	}
	text, err := json.MarshalIndent(h.used, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cachePath(h.root)), 0o755); err != nil {
		return err
	}
	if err := outputs.WriteFileAtomic(cachePath(h.root), append(text, '\n')); err != nil {
		return err
	}
	h.dirty = false
	return nil
}

// key makes paths in the run directory relative to it, so that a moved run keeps its cache.
func (h *hasher) key(path string) string {
	if rel, err := filepath.Rel(h.root, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

func (h *hasher) path(key string) string {
	if filepath.IsAbs(key) {
		return key
	}
	return filepath.Join(h.root, key)
}

// file gives size and SHA-256 of a file, from the cache where its stamp is unchanged.
func (h *hasher) file(ctx context.Context, path string) (hashed, error) {
	key := h.key(path)
	s, err := stampOf(path)
	if err != nil {
		return hashed{}, err
	}
	for _, have := range []map[string]hashed{h.used, h.known} {
		if c, ok := have[key]; ok && c.stamp == s {
			h.used[key] = c
			return c, nil
		}
	}
	got, err := hashFile(ctx, path)
	if err != nil {
		return hashed{}, err
	}
	h.put(key, got)
	return got, nil
}

func (h *hasher) put(key string, got hashed) {
	if settled(got.stamp, time.Now()) {
		h.used[key] = got
		h.dirty = true
	} else {
		delete(h.used, key)
	}
}

// settled says whether a later change of the file would show in its time stamp: times have a granularity, a few
// milliseconds or, on some file systems, up to two seconds.
func settled(s stamp, now time.Time) bool {
	grain := 20 * time.Millisecond
	if s.MTime%int64(time.Second) == 0 {
		grain = 2 * time.Second
	}
	return now.Sub(time.Unix(0, s.MTime)) > grain
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino}, nil
}

// hashFile reads a file. The stamp is that from before reading.
func hashFile(ctx context.Context, path string) (hashed, error) {
	s, err := stampOf(path)
	if err != nil {
		return hashed{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return hashed{}, err
	}
	defer f.Close()
	sum := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return hashed{}, err
		}
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return hashed{}, err
		}
	}
	return hashed{s, hex.EncodeToString(sum.Sum(nil))}, nil
}
