package datasets

import "fmt"

// idSet finds ids that occur twice, among the first maxIDs rows of a stream: enough for files that were put together
// with equal numbering, in memory that does not grow with the data.
type idSet struct {
	slots []uint64 // open addressing, 0 for empty
	zero  bool     // the key 0 is in the set
	n     int
}

const maxIDs = 1 << 17

// add tells whether a key is new. It takes no more keys when the set is full, and calls them new.
func (s *idSet) add(key uint64) bool {
	if s.slots == nil {
		s.slots = make([]uint64, 2*maxIDs)
	}
	if key == 0 {
		if s.zero {
			return false
		}
		s.zero = true
		s.n++
		return true
	}
	for i := key; ; i++ {
		switch slot := &s.slots[i%uint64(len(s.slots))]; {
		case *slot == key:
			return false
		case *slot == 0 && s.n < maxIDs:
			*slot = key
			s.n++
			return true
		case *slot == 0:
			return true
		}
	}
}

// intKey is a bijection (the finaliser of SplitMix64), so that integers are never taken for one another.
func intKey(id int64) uint64 {
	z := uint64(id)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// textKey is FNV-1a (Fowler, Noll and Vo) of 64 bits, mixed. Two of 2^17 different texts share a key once in two
// thousand million sets.
func textKey(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return intKey(int64(h))
}

// duplicate is the flaw of a row whose id occurred before.
func duplicate(id any) flaw {
	return flaw{
		status: StatusDuplicateID, found: fmt.Sprintf("sample_id %v is that of an earlier row, too", id),
		remedy: "give every row an id of its own, since tables are joined on it, or set bad_rows: keep to pass over the row",
	}
}
