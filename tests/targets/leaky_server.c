/* SPDX-License-Identifier: Apache-2.0
 *
 * leaky_server [THREADS [REQUESTS_PER_SECOND]]: a small server that leaks, for the demo.
 *
 * It needs no network: a generator makes up requests, worker threads handle them (parse,
 * log in, search, upload, render). All memory of a request is given back but one kind:
 * cache_session() puts each new session into a table that nobody ever empties.
 *
 * READY PID
 * count: "REQUESTS SESSIONS BYTES": handled so far, and what the sessions hold
 * It exits at the end of stdin. In the background, where it has none, it runs until it is
 * killed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define QUEUE 256
#define BUCKETS 4096

struct request {
	char line[96];
};

struct session {
	struct session *next;
	char *user;
	char *token;
	unsigned char profile[2048];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled, drained;
	struct request requests[QUEUE];
	unsigned head, tail;
} queue = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	    { { "" } }, 0, 0 };

static struct {
	pthread_mutex_t lock;
	struct session *buckets[BUCKETS];
	unsigned long sessions, bytes;
} cache = { PTHREAD_MUTEX_INITIALIZER, { NULL }, 0, 0 };

static unsigned long handled;
static unsigned rate = 2000;

static unsigned hash(const char *text)
{
	unsigned h = 5381;

	while (*text)
		h = h * 33 + (unsigned char)*text++;
	return h;
}

static char *copy(const char *text)
{
	char *to = malloc(strlen(text) + 1);

	return to ? strcpy(to, text) : NULL;
}

/* ---- sessions: here is the leak ---- */

static NOINLINE void cache_session(const char *user, const char *token)
{
	struct session *session = calloc(1, sizeof(*session));
	unsigned bucket = hash(token) % BUCKETS;

	if (!session)
		return;
	session->user = copy(user);
	session->token = copy(token);
	memset(session->profile, 'p', sizeof(session->profile));
	pthread_mutex_lock(&cache.lock);
	session->next = cache.buckets[bucket];
	cache.buckets[bucket] = session;
	cache.sessions++;
	cache.bytes += sizeof(*session) + strlen(user) + strlen(token) + 2;
	pthread_mutex_unlock(&cache.lock);
}

static NOINLINE void create_session(const char *user, unsigned long id)
{
	char token[64];

	snprintf(token, sizeof(token), "%s-%08lx-%08x", user, id, hash(user));
	cache_session(user, token);
}

/* ---- the handlers: they give back what they take ---- */

static NOINLINE char *render_page(const char *title, const char *body)
{
	size_t size = strlen(title) + strlen(body) + 64;
	char *page = malloc(size);

	if (page)
		snprintf(page, size, "<html><h1>%s</h1>%s</html>", title, body);
	return page;
}

static NOINLINE void handle_login(const char *user, unsigned long id)
{
	char *page;

	create_session(user, id);
	page = render_page("welcome", user);
	free(page);
}

static NOINLINE char **search_index(const char *words, unsigned *ret_n)
{
	unsigned n = 20 + hash(words) % 50;
	char **results = calloc(n, sizeof(*results));

	for (unsigned i = 0; results && i < n; i++) {
		results[i] = malloc(40 + i * 3);
		if (results[i])
			snprintf(results[i], 40, "%s: hit %u", words, i);
	}
	*ret_n = results ? n : 0;
	return results;
}

static NOINLINE void handle_search(const char *words)
{
	unsigned n;
	char **results = search_index(words, &n);
	char *page = render_page(words, n && results[0] ? results[0] : "nothing");

	for (unsigned i = 0; i < n; i++)
		free(results[i]);
	free(results);
	free(page);
}

static NOINLINE void handle_upload(size_t size)
{
	char *body = NULL, *more;

	for (size_t have = 1024; have <= size; have *= 2) {
		more = realloc(body, have);
		if (!more)
			break;
		body = more;
		memset(body, 'u', have);
	}
	free(body);
}

static NOINLINE void serve_request(const struct request *request)
{
	char *words[3] = { NULL }, *line = copy(request->line), *rest = line;

	for (int i = 0; i < 3 && rest; i++)
		words[i] = strsep(&rest, " ");
	if (words[0] && words[1] && words[2]) {
		if (!strcmp(words[0], "LOGIN"))
			handle_login(words[1], strtoul(words[2], NULL, 10));
		else if (!strcmp(words[0], "SEARCH"))
			handle_search(words[1]);
		else
			handle_upload(strtoul(words[2], NULL, 10));
	}
	free(line);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

/* ---- the threads ---- */

/* A thread that has only just been made has all signals blocked. */
static pthread_barrier_t all_run;

static void *worker_main(void *arg)
{
	struct request request;

	pthread_barrier_wait(&all_run);
	for (;;) {
		pthread_mutex_lock(&queue.lock);
		while (queue.head == queue.tail)
			pthread_cond_wait(&queue.filled, &queue.lock);
		request = queue.requests[queue.tail++ % QUEUE];
		pthread_cond_signal(&queue.drained);
		pthread_mutex_unlock(&queue.lock);
		serve_request(&request);
	}
	return arg;
}

static void make_request(struct request *request, unsigned long id)
{
	static const char *const users[] = { "ada", "grace", "alan", "edsger", "barb" };
	const char *user = users[id * 7 % 5];

	if (id % 5 == 0)
		snprintf(request->line, sizeof(request->line), "LOGIN %s %lu", user, id);
	else if (id % 5 < 4)
		snprintf(request->line, sizeof(request->line), "SEARCH %s+%lu x", user,
			 id % 97);
	else
		snprintf(request->line, sizeof(request->line), "UPLOAD %s %lu", user,
			 1024ul << id % 7);
}

static void post(unsigned long id)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.head - queue.tail == QUEUE)
		pthread_cond_wait(&queue.drained, &queue.lock);
	make_request(&queue.requests[queue.head++ % QUEUE], id);
	pthread_cond_signal(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

/* A hundredth of a second's worth of requests at a time. */
static void *generator_main(void *arg)
{
	struct timespec next;
	unsigned long id = 0;

	pthread_barrier_wait(&all_run);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		for (unsigned i = 0; i < (rate + 99) / 100; i++)
			post(id++);
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL))
			continue;
	}
	return arg;
}

static void answer(void)
{
	pthread_mutex_lock(&cache.lock);
	printf("%lu %lu %lu\n", __atomic_load_n(&handled, __ATOMIC_RELAXED),
	       cache.sessions, cache.bytes);
	pthread_mutex_unlock(&cache.lock);
	fflush(stdout);
}

static bool stdin_is_pipe(void)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st) < 0)
		return false;
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
}

static int start_threads(unsigned workers)
{
	pthread_t thread;

	pthread_barrier_init(&all_run, NULL, workers + 2);
	for (unsigned i = 0; i < workers; i++)
		if (pthread_create(&thread, NULL, worker_main, NULL))
			return -1;
	if (pthread_create(&thread, NULL, generator_main, NULL))
		return -1;
	pthread_barrier_wait(&all_run);
	return 0;
}

int main(int argc, char **argv)
{
	bool pipe = stdin_is_pipe(), obey = pipe || isatty(STDIN_FILENO);
	char line[64];

	if (argc > 2)
		rate = (unsigned)atoi(argv[2]);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pipe)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* As a background job it can't read the terminal: an error then, not a stop. */
	signal(SIGTTIN, SIG_IGN);
	if (start_threads(argc > 1 ? (unsigned)atoi(argv[1]) : 4) < 0)
		return 1;
	printf("READY %d\n", (int)getpid());
	fflush(stdout);
	while (obey && fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "quit", 4))
			return 0;
		answer();
	}
	if (obey && !ferror(stdin))
		return 0;
	for (;;)
		pause();
}
