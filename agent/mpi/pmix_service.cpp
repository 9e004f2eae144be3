#include "agent/mpi/pmix_service.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "agent/mpi/pmix_infos.h"
#include "common/base/quantity.h"

namespace meshbus::mpi {
namespace {

bool is_done(pmix_status_t status) {
  return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED;
}

tl::unexpected<Error> pmix_error(const char* call, pmix_status_t status) {
  return fail(ErrorCode::io_error, std::string(call) + ": " + PMIx_Error_string(status));
}

/// Ranks take each other for neighbours when their hosts have one name, so the name is not that of
/// the machine: several hosts may be on one.
std::string node_name(std::uint64_t host) {
  return "host" + std::to_string(host);
}

std::string ranks_text(const RankBlock& block) {
  std::string text;
  for (auto rank = block.begin; rank < block.end; ++rank)
    text += (rank == block.begin ? "" : ",") + std::to_string(rank);
  return text;
}

std::uint64_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::uint64_t>(CPU_COUNT(&set))
                                                       : 1;
}

/// What a rank of another host asked for, on its way through libpmix.
struct Ask {
  ServiceParts* parts;
  std::uint64_t from;
  std::string key;
};

void on_asked_value(pmix_status_t status, char* bytes, std::size_t size, void* data) {
  const std::unique_ptr<Ask> ask(static_cast<Ask*>(data));
  ask->parts->reactor.post(
      [parts = ask->parts, from = ask->from, key = ask->key, status,
       body = std::string(bytes == nullptr ? "" : bytes, bytes == nullptr ? 0 : size)] {
        parts->send({from}, {.kind = Letter::Kind::answer,
                             .key = key,
                             .value = static_cast<std::uint64_t>(static_cast<std::int64_t>(status)),
                             .body = body});
      });
}

}  // namespace

Result<std::unique_ptr<RankService>> PmixService::make(ServiceParts parts) {
  std::unique_ptr<PmixService> service(new PmixService(std::move(parts)));
  if (auto started = service->start(); !started) return fail(started.error());
  return std::unique_ptr<RankService>(std::move(service));
}

Result<void> PmixService::start() {
  // libpmix removes the directory of the job when its first rank leaves: the three are apart.
  for (const char* name : {"server", "job", "shm"}) ::mkdir(directory(name).c_str(), 0700);
  // Its store in memory needs no files and no lock that a killed rank could hold.
  ::setenv("PMIX_MCA_gds", "hash", 1);
  ::setenv("PMIX_HOSTNAME", node_name(parts_.host).c_str(), 1);
  PmixInfos infos;
  infos.text(PMIX_SERVER_TMPDIR, directory("server"))
      .text(PMIX_SYSTEM_TMPDIR, directory("server"))
      .text(PMIX_HOSTNAME, node_name(parts_.host))
      .text(PMIX_SERVER_NSPACE, "meshbus-" + std::to_string(parts_.host))
      .rank(PMIX_SERVER_RANK, parts_.host)
      .u32(PMIX_NODEID, parts_.host);
#ifdef PMIX_SERVER_SHARE_TOPOLOGY
  // Ranks that read it for themselves need 8 ms of CPU time each.
  infos.flag(PMIX_SERVER_SHARE_TOPOLOGY, true);
#endif
  auto module = make_module(*this);
  // Signals are for our own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const auto status = PMIx_server_init(&module, infos.data(), infos.size());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status != PMIX_SUCCESS) return pmix_error("PMIx_server_init", status);
  return begin_attempt(0);
}

std::string PmixService::name_space(std::uint64_t attempt) const {
  return parts_.secret + "." + std::to_string(attempt);
}

pmix_proc_t PmixService::proc(std::uint64_t rank) const {
  pmix_proc_t proc{};
  PMIX_LOAD_PROCID(&proc, name_space(attempt_).c_str(), static_cast<pmix_rank_t>(rank));
  return proc;
}

Result<void> PmixService::begin_attempt(std::uint64_t attempt) {
  // Not the one that has just ended: libpmix may not have read yet that its ranks are gone. It
  // would close their sockets and go on to wait for them; a new rank whose socket gets the same
  // number is never heard then, and hangs in PMIx_Init.
  if (ended_) PMIx_server_deregister_nspace(name_space(*ended_).c_str(), nullptr, nullptr);
  if (attempt > 0) ended_ = attempt_;
  attempt_ = attempt;
  meetings_.clear();
  {
    const std::lock_guard lock(mutex_);
    inside_.clear();
    begun_.clear();
  }
  const auto& layout = parts_.layout;
  const auto block = layout.block_of(parts_.host);
  std::string nodes;
  std::string procs;
  for (const auto host : layout.used_hosts()) {
    nodes += (host == 0 ? "" : ",") + node_name(host);
    procs += (host == 0 ? "" : ";") + ranks_text(layout.block_of(host));
  }
  char* node_map = nullptr;
  char* proc_map = nullptr;
  PMIx_generate_regex(nodes.c_str(), &node_map);
  PMIx_generate_ppn(procs.c_str(), &proc_map);
  PmixInfos job;
  job.u32(PMIX_UNIV_SIZE, layout.ranks())
      .u32(PMIX_JOB_SIZE, layout.ranks())
      .u32(PMIX_MAX_PROCS, layout.ranks())
      .u32(PMIX_APP_SIZE, layout.ranks())
      .u32(PMIX_JOB_NUM_APPS, 1)
      .u32(PMIX_NUM_NODES, layout.used_hosts().size())
      .u32(PMIX_LOCAL_SIZE, block.size())
      .u32(PMIX_NODE_SIZE, block.size())
      .text(PMIX_LOCAL_PEERS, ranks_text(block))
      .rank(PMIX_LOCALLDR, block.begin)
      .u32(PMIX_NODEID, parts_.host)
      .text(PMIX_HOSTNAME, node_name(parts_.host))
      .text(PMIX_JOBID, name_space(attempt))
      .text(PMIX_TMPDIR, directory("job"))
      .text(PMIX_NSDIR, directory("job"))
      .flag(PMIX_TDIR_RMCLEAN, true)
      .regex(PMIX_NODE_MAP, node_map)
      .regex(PMIX_PROC_MAP, proc_map);
  std::free(node_map);
  std::free(proc_map);
  for (std::uint64_t rank = 0; rank < layout.ranks(); ++rank) {
    const auto host = layout.host_of(rank);
    const auto local = rank - layout.block_of(host).begin;
    PmixInfos one;
    one.rank(PMIX_RANK, rank)
        .rank(PMIX_GLOBAL_RANK, rank)
        .rank(PMIX_APP_RANK, rank)
        .rank(PMIX_APPLDR, 0)
        .u32(PMIX_APPNUM, 0)
        .u16(PMIX_LOCAL_RANK, local)
        .u16(PMIX_NODE_RANK, local)
        .u32(PMIX_NODEID, host)
        .text(PMIX_HOSTNAME, node_name(host));
    job.array(PMIX_PROC_DATA, one);
  }
  ::mkdir(directory("job").c_str(), 0700);  // The attempt before has removed it.
  auto status =
      PMIx_server_register_nspace(name_space(attempt).c_str(), static_cast<int>(block.size()),
                                  job.data(), job.size(), nullptr, nullptr);
  if (!is_done(status)) return pmix_error("PMIx_server_register_nspace", status);
  for (auto rank = block.begin; rank < block.end; ++rank) {
    const auto client = proc(rank);
    status =
        PMIx_server_register_client(&client, ::geteuid(), ::getegid(), nullptr, nullptr, nullptr);
    if (!is_done(status)) return pmix_error("PMIx_server_register_client", status);
  }
  return {};
}

Result<std::vector<std::string>> PmixService::environment(std::uint64_t rank,
                                                          std::uint64_t attempt) {
  if (attempt > attempt_) {
    if (auto begun = begin_attempt(attempt); !begun) return fail(begun.error());
  }
  const auto client = proc(rank);
  // libpmix makes the list longer, by realloc().
  auto** list = static_cast<char**>(std::calloc(1, sizeof(char*)));
  const auto status = PMIx_server_setup_fork(&client, &list);
  std::vector<std::string> entries;
  for (char** entry = list; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
    std::free(*entry);
  }
  std::free(list);
  if (!is_done(status)) return pmix_error("PMIx_server_setup_fork", status);
  // Open MPI 4.1 believes in PMIx only where it knows the resource manager: this one makes no
  // demands.
  entries.emplace_back("JSM_JSRUN_PORT=1");
  // By default the files have the same names on several hosts of one machine.
  entries.push_back("OMPI_MCA_btl_vader_backing_directory=" + directory("shm"));
  entries.push_back("OMPI_MCA_btl_sm_backing_directory=" + directory("shm"));
  // Open MPI 5 asks the kernel for a route to its peer, and refuses one to its own machine.
  if (std::getenv("MESHBUS_MPI_ONE_MACHINE") != nullptr)
    entries.emplace_back("OMPI_MCA_reachable=weighted");
  // A rank that spins keeps the CPU from the one that it waits for.
  if (begins_together()) entries.emplace_back("OMPI_MCA_mpi_yield_when_idle=1");
  return entries;
}

bool PmixService::begins_together() const {
  return parts_.layout.block_of(parts_.host).size() > usable_cpus();
}

bool PmixService::is_inside(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return inside_.contains(rank);
}

bool PmixService::has_begun(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return begun_.contains(rank);
}

void PmixService::on_inside(std::uint64_t rank, bool is_inside) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_inside) {
      inside_.erase(rank);
      return;
    }
    inside_.insert(rank);
    begun_.insert(rank);
  }
  parts_.reactor.post([this, notice = Notice{.kind = Notice::Kind::begun, .rank = rank}] {
    parts_.notify(notice);
  });
}

void PmixService::on_abort(std::uint64_t rank, int code, std::string text) {
  parts_.reactor.post([this, notice = Notice{.kind = Notice::Kind::abort,
                                             .rank = rank,
                                             .code = code,
                                             .text = std::move(text)}] { parts_.notify(notice); });
}

void PmixService::on_logged(pmix_op_cbfunc_t done, void* data) {
  parts_.reactor.post([done, data] { done(PMIX_SUCCESS, data); });
}

void PmixService::on_refused(std::uint64_t rank, std::string call) {
  parts_.reactor.post(
      [this, notice = Notice{
                 .kind = Notice::Kind::refused, .rank = rank, .code = 1, .text = std::move(call)}] {
        parts_.notify(notice);
      });
}

void PmixService::on_fence(std::string name_space, std::vector<std::uint64_t> ranks,
                           std::string part, pmix_modex_cbfunc_t done, void* data) {
  parts_.reactor.post([this, name = std::move(name_space), ranks = std::move(ranks),
                       part = std::move(part),
                       request = Request{done, data}] { fence(name, ranks, part, request); });
}

void PmixService::fence(const std::string& name_space_of_fence,
                        const std::vector<std::uint64_t>& ranks, std::string part,
                        Request request) {
  if (name_space_of_fence != name_space(attempt_))
    return answer(request.done, request.data, PMIX_ERR_NOT_FOUND, {});
  std::set<std::uint64_t> hosts;
  std::string key = "pmix " + std::to_string(attempt_);
  for (const auto rank : ranks) {
    if (rank >= parts_.layout.ranks())
      return answer(request.done, request.data, PMIX_ERR_NOT_FOUND, {});
    hosts.insert(parts_.layout.host_of(rank));
    key += " " + std::to_string(rank);
  }
  std::vector<std::uint64_t> participants(hosts.begin(), hosts.end());
  if (ranks.empty()) participants = parts_.layout.used_hosts();
  key += " #" + std::to_string(meetings_[key]++);
  parts_.exchange.begin(key, std::move(participants), std::move(part),
                        [request](const std::string& whole) {
                          answer(request.done, request.data, PMIX_SUCCESS, whole);
                        });
}

void PmixService::on_direct_modex(std::uint64_t rank, pmix_modex_cbfunc_t done, void* data) {
  parts_.reactor.post([this, rank, request = Request{done, data}] {
    if (rank >= parts_.layout.ranks())
      return answer(request.done, request.data, PMIX_ERR_NOT_FOUND, {});
    const auto key = std::to_string(attempt_) + " " + std::to_string(next_request_++);
    requests_.emplace(key, request);
    parts_.send({parts_.layout.host_of(rank)},
                {.kind = Letter::Kind::ask, .key = key, .value = rank, .body = {}});
  });
}

void PmixService::on_letter(std::uint64_t from, Letter letter) {
  if (letter.kind == Letter::Kind::ask) return answer_ask(from, letter);
  const auto found = requests_.find(letter.key);
  if (found == requests_.end()) return;
  const auto request = found->second;
  requests_.erase(found);
  answer(request.done, request.data,
         static_cast<pmix_status_t>(static_cast<std::int64_t>(letter.value)), letter.body);
}

void PmixService::answer_ask(std::uint64_t from, const Letter& letter) {
  const auto attempt = parse_whole(std::string_view(letter.key).substr(0, letter.key.find(' ')));
  if (!attempt || *attempt < attempt_) return;
  if (*attempt > attempt_ && !begin_attempt(*attempt)) return;
  const auto of = proc(letter.value);
  auto ask = std::make_unique<Ask>(Ask{&parts_, from, letter.key});
  if (PMIx_server_dmodex_request(&of, on_asked_value, ask.get()) == PMIX_SUCCESS) {
    [[maybe_unused]] auto* const taken = ask.release();  // on_asked_value() has it now.
    return;
  }
  parts_.send({from}, {.kind = Letter::Kind::answer,
                       .key = letter.key,
                       .value = static_cast<std::uint64_t>(std::int64_t{PMIX_ERR_NOT_FOUND}),
                       .body = {}});
}

}  // namespace meshbus::mpi
