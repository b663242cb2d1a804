// Events. Those between processes lie in a page of the process that made them:
// how often each was recorded, how often that has happened, and how much of it
// somebody waits for. Nobody ever waits for a recording that is not issued yet,
// as with CUDA. An event whose process dies before it happened never happens.
struct Slot {
	std::atomic<u32> recorded, done, wanted;
	std::atomic<u32> life; // odd while there is an event
};

enum { Slots = 8192, EventMagic = 0xfa4e0e };

struct Page {
	std::atomic<u32> bell; // rung by whoever wants something
	Slot slots[Slots];
};

struct Event {
	Stream* stream = nullptr; // null: never recorded here
	u64 at = 0;
	Slot* slot = nullptr; // of an event between processes
	Page* page = nullptr; // of the slot
	bool foreign = false; // another process records it
	u32 life = 0;         // of the slot, when a foreign one was opened
};

static Page* page;
static int page_file = -1;
static Event* shown[Slots]; // this process's events by slot

// serve runs what other processes wait for.
static void serve() {
	for (;;) {
		u32 heard = page->bell;
		{
			Lock lock(big);
			for (Event* e : shown)
				if (e && e->stream && int(e->slot->wanted - e->slot->done) > 0) want(e->stream, e->at);
		}
		doze(&page->bell, heard, 1000);
	}
}

static int place(Event* e) {
	if (!page) {
		page_file = anonymous("fakecuda-events", sizeof(Page));
		if (page_file < 0) return OutOfMemory;
		page = (Page*)shared(page_file, sizeof(Page));
		aside(serve);
	}
	for (int i = 0; i < Slots; i++)
		if (!shown[i]) {
			shown[i] = e;
			e->page = page;
			e->slot = &page->slots[i];
			e->slot->life++;
			e->slot->recorded = e->slot->done = e->slot->wanted = 0;
			return Success;
		}
	return fail("cuEventCreate", "too many events between processes");
}

// dead says that a foreign event was destroyed where it was made.
static bool dead(const Event* e) { return e->foreign && e->slot->life != e->life; }

static int behind(const Slot* s, u32 turn) { return int(turn - s->done) > 0; }

// ask tells another process that somebody waits.
static void ask(Page* p, Slot* s, u32 turn) {
	if (int(turn - s->wanted) > 0) s->wanted = turn;
	ring(&p->bell);
}

static void await(Page* p, Slot* s, u32 turn) {
	for (u32 seen = s->done; int(turn - seen) > 0; seen = s->done) {
		ask(p, s, turn);
		doze(&s->done, seen, 20);
	}
}

FAKE(cuEventCreate, Event** e, unsigned flags) {
	ENTER();
	*e = new Event;
	if (!(flags & 4)) return Success;
	if (!(flags & 2)) return fail("cuEventCreate", "an event between processes has no time");
	return place(*e);
}

FAKE(cuEventDestroy_v2, Event* e) {
	ENTER();
	if (e->slot && !e->foreign) {
		shown[e->slot - page->slots] = nullptr;
		e->slot->life++;
	}
	delete e;
	return Success;
}

FAKE(cuEventRecord, Event* e, Stream* s) {
	ONTO("cuEventRecord", s);
	if (e->foreign) return fail("cuEventRecord", "this fake lets the maker of an event record it");
	if (e->slot) {
		Slot* slot = e->slot;
		u32 turn = ++slot->recorded;
		enqueue(lock, s, [slot, turn] {
			slot->done = turn;
			wake(&slot->done);
		});
	}
	e->stream = s;
	e->at = s->enqueued;
	return Success;
}

FAKE(cuStreamWaitEvent, Stream* s, Event* e, unsigned) {
	ONTO("cuStreamWaitEvent", s);
	if (dead(e)) return fail("cuStreamWaitEvent", "the event was destroyed where it was made");
	if (e->foreign) {
		Page* p = e->page;
		Slot* slot = e->slot;
		u32 turn = slot->recorded;
		if (!turn) return fail("cuStreamWaitEvent", "the event was never recorded");
		if (behind(slot, turn)) enqueue(lock, s, [=] { await(p, slot, turn); }, true);
		return Success;
	}
	if (!e->stream) return fail("cuStreamWaitEvent", "the event was never recorded");
	Stream* on = e->stream;
	u64 at = e->at;
	enqueue(lock, s, [on, at] {
		Lock lock(big);
		advance(lock, on, at);
	}, on->done < at);
	return Success;
}

FAKE(cuEventQuery, Event* e) {
	ENTER();
	if (dead(e)) return fail("cuEventQuery", "the event was destroyed where it was made");
	if (e->foreign) {
		u32 turn = e->slot->recorded;
		if (!behind(e->slot, turn)) return Success;
		ask(e->page, e->slot, turn);
		return NotReady;
	}
	if (!e->stream || e->stream->done >= e->at) return Success;
	want(e->stream, e->at);
	return NotReady;
}

FAKE(cuEventSynchronize, Event* e) {
	ENTER();
	if (e->foreign) {
		lock.unlock();
		await(e->page, e->slot, e->slot->recorded);
	} else if (e->stream) {
		advance(lock, e->stream, e->at);
	}
	return Success;
}

FAKE(cuIpcGetEventHandle, Handle* h, Event* e) {
	ENTER();
	if (!e->slot || e->foreign) return fail("cuIpcGetEventHandle", "the event is not one between processes");
	*h = handle_of(EventMagic, page_file, sizeof(Page), e->slot - page->slots);
	return Success;
}

FAKE(cuIpcOpenEventHandle, Event** e, Handle h) {
	ENTER();
	static auto& pages = lasting<std::map<std::pair<int, u64>, Page*>>();
	if (h.magic != EventMagic || h.which >= Slots) return fail("cuIpcOpenEventHandle", "not the handle of an event");
	if (h.pid == getpid()) return InvalidContext;
	Page*& p = pages[{h.pid, h.inode}];
	if (!p) {
		int fd = borrow(h);
		if (fd < 0) return fail("cuIpcOpenEventHandle", "its process is gone");
		p = (Page*)shared(fd, sizeof(Page));
		close(fd);
	}
	*e = new Event;
	(*e)->page = p;
	(*e)->slot = &p->slots[h.which];
	(*e)->foreign = true;
	(*e)->life = (*e)->slot->life;
	if ((*e)->life % 2 == 0) return fail("cuIpcOpenEventHandle", "the event is gone");
	return Success;
}
