package tableread

import "slices"

// Page is what one statement reads: the rows of keys that follow each other in a window.
type Page struct {
	Window Window
	Keys   []Key
	// Least and Greatest are the limits of the IDs if hardly any other row has an ID between them: they find the rows in one piece of
	// the index, which takes a fraction of the time of a search for each ID. Otherwise they are "".
	Least, Greatest string
	// Ascending says that the IDs ascend from key to key.
	Ascending bool
}

func (p *Page) last() Key { return p.Keys[len(p.Keys)-1] }

// pages cuts keys into pages. IDs mostly ascend with the time, as UUIDv7 do; then a page is a range of IDs too. A filter that selects
// few rows is better served by a search for each ID.
func pages(t Table, f Filter, w Window, keys []Key, rows int) []Page {
	list := make([]Page, 0, len(keys)/rows+1)
	for page := range slices.Chunk(keys, rows) {
		list = append(list, Page{Window: w, Keys: page})
	}
	if t.Sorts() && len(f.IDs)+len(f.Matches) == 0 {
		limit(list)
	}
	return list
}

// limit sets the limits of the pages whose range of IDs reaches no farther than the pages next to them, judged by a key of each page.
func limit(list []Page) {
	middles := make([]string, len(list))
	for i := range list {
		list[i].measure()
		middles[i] = list[i].Keys[len(list[i].Keys)/2].ID
	}
	slices.Sort(middles)
	for i := range list {
		p := &list[i]
		from, _ := slices.BinarySearch(middles, p.Least)
		to, _ := slices.BinarySearch(middles, p.Greatest+"\x00")
		if to-from > 3 {
			p.Least, p.Greatest = "", ""
		}
	}
}

func (p *Page) measure() {
	p.Least, p.Greatest, p.Ascending = p.Keys[0].ID, p.Keys[0].ID, true
	for _, key := range p.Keys {
		p.Ascending = p.Ascending && key.ID >= p.Greatest
		p.Least, p.Greatest = min(p.Least, key.ID), max(p.Greatest, key.ID)
	}
}
