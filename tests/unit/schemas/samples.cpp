#include "tests/unit/schemas/samples.h"

#include <memory>

#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "wire/actors_generated.h"
#include "wire/bootstrap_generated.h"
#include "wire/ledger_generated.h"
#include "wire/logs_generated.h"
#include "wire/monitor_generated.h"
#include "wire/relay_generated.h"
#include "wire/replies_generated.h"
#include "wire/settings_generated.h"

namespace meshbus::test {
namespace {

using Form = WireSample::Form;

const std::string kMesh = "trainers-13Se1Maqzryj";
const std::string kHost = "tcp:h1:7420";
const std::string kOtherHost = "unix:/run/user/0/meshbus/host-5be2a0c1/bus";
const std::string kProc = "tcp:h1:7420,trainers-13Se1Maqzryj-7";
const std::string kController = "tcp:h1:7420,controller";
const std::string kClient = "tcp:h1:7420,client-2bGqGa6bY7cP";

std::unique_ptr<wire::RegionT> region() {
  auto region = std::make_unique<wire::RegionT>();
  region->labels = {"host", "gpu"};
  region->offset = 2;
  region->sizes = {2, 4};
  region->strides = {4, 1};
  return region;
}

std::unique_ptr<wire::KeyValueT> pair(const std::string& key, const std::string& value) {
  auto entry = std::make_unique<wire::KeyValueT>();
  entry->key = key;
  entry->value = value;
  return entry;
}

wire::RankState rank_state(std::uint64_t rank) {
  return {rank,
          5,
          0x1122334455667788,
          1'700'000'000'000'000'001,
          1'700'000'000'000'000'002,
          4711,
          -3,
          wire::ProcState::killed,
          9,
          true,
          wire::StopStep::kill,
          0x01020304};
}

std::unique_ptr<wire::ExitReportT> exit_report() {
  auto exit_report = std::make_unique<wire::ExitReportT>();
  exit_report->rank = 7;
  exit_report->reason = "killed by SIGSEGV";
  exit_report->code = wire::ErrorCode::exec_failed;
  exit_report->os_error = 2;
  exit_report->stderr_tail = {'o', 'h', '\n'};
  exit_report->stopped_by = kClient;
  exit_report->stop_reason = "seen enough";
  exit_report->max_rss_bytes = 1 << 20;
  exit_report->user_us = 1500;
  exit_report->system_us = 250;
  return exit_report;
}

template <typename T>
std::vector<std::unique_ptr<T>> one(std::unique_ptr<T> only) {
  std::vector<std::unique_ptr<T>> list;
  list.push_back(std::move(only));
  return list;
}

class Samples {
 public:
  template <typename NativeBody>
  void request(const std::string& name, NativeBody body) {
    add(name, {.id = 77, .deadline_ms = 5000}, std::move(body));
  }
  template <typename NativeBody>
  void answer(const std::string& name, NativeBody body) {
    add(name, {.id = 77, .is_answer = true}, std::move(body));
  }
  template <typename NativeBody>
  void message(const std::string& name, NativeBody body) {
    add(name, {}, std::move(body));
  }
  template <typename NativeBody>
  void add(const std::string& name, const ControlHead& head, NativeBody body) {
    list.push_back({name, Form::control, encode_control(head, std::move(body))});
  }
  template <typename Table>
  void table(const std::string& name, const std::string& table,
             const typename Table::NativeTableType& native, const char* identifier = nullptr) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Table::Pack(builder, &native), identifier);
    list.push_back({name,
                    Form::table,
                    {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()},
                    table});
  }
  std::vector<WireSample> list;
};

wire::Envelope envelope(wire::Kind kind, std::uint32_t port) {
  return {1, 2, 3, 4, 5, 6, 0, port, kind, wire::Lane::data, 7, wire::Role::operate, kFlagNoReturn};
}

void add_bus(Samples& samples) {
  wire::HelloT hello;
  hello.version = 1;
  hello.capabilities = 0x8000000000000001;
  hello.peer = kProc;
  hello.kind = wire::PeerKind::proc;
  hello.incarnation = 0x0102030405060708;
  hello.token = {1, 2, 3, 255};
  hello.pid = 4711;
  hello.oldest = 1;
  hello.release = "0.1.0";
  samples.message("Hello", hello);

  wire::WelcomeT welcome;
  welcome.version = 1;
  welcome.capabilities = 2;
  welcome.host = kHost;
  welcome.incarnation = 0x1112131415161718;
  welcome.role = wire::Role::proc;
  welcome.heartbeat_ms = 5000;
  welcome.release = "0.1.0";
  samples.message("Welcome", welcome);

  samples.message("Heartbeat", wire::HeartbeatT());
  wire::ByeT bye;
  bye.reason = "this host ends";
  samples.message("Bye", bye);
  wire::IntroduceT introduce;
  introduce.host = kOtherHost;
  samples.request("Introduce", introduce);
  wire::WatchT watch;
  watch.proc = kProc;
  samples.request("Watch", watch);
  wire::GoneT gone;
  gone.proc = kProc;
  gone.incarnation = 9;
  gone.reason = "its connection ended";
  samples.add("Gone", {.id = 77}, gone);
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>(envelope(wire::Kind::message, 9));
  undeliverable.code = wire::ErrorCode::no_such_proc;
  undeliverable.detail = "nobody there";
  samples.message("Undeliverable", undeliverable);
  wire::AckT ack;
  ack.detail = "done";
  samples.answer("Ack", ack);
  wire::RefusalT refusal;
  refusal.code = wire::ErrorCode::version_mismatch;
  refusal.detail = "too old";
  samples.answer("Refusal", refusal);
  wire::TakenT taken;
  taken.incarnation = 0x0102030405060708;
  taken.runs = {{3, 9, 5}, {12, 0x1112131415161718, 7}};
  samples.message("Taken", taken);
  samples.request("AskTaken", wire::AskTakenT());
}

void add_spawn(Samples& samples) {
  wire::SpawnProcsT spawn;
  spawn.mesh = kMesh;
  spawn.region = region();
  spawn.hosts = {kHost, kOtherHost};
  spawn.host_index = 1;
  spawn.create_ranks = {{4, 6}, {7, 8}};
  spawn.kind = wire::ProcKind::mesh;
  spawn.command = std::make_unique<wire::CommandT>();
  spawn.command->program = "train";
  spawn.command->arguments = {"train", "--fast", ""};
  spawn.command->environment = one(pair("OMP_NUM_THREADS", "1"));
  spawn.command->clean_environment = true;
  spawn.command->directory = "/work";
  spawn.owner = kClient;
  spawn.lease_ms = 30'000;
  spawn.ready_limit_ms = 60'000;
  spawn.grace_ms = 10'000;
  spawn.output = wire::OutputMode::stream;
  spawn.input_ranks = {{4, 5}};
  spawn.master_address = "10.0.0.1";
  spawn.master_port = 29500;
  spawn.config = one(pair("heartbeat", "2s"));
  samples.request("SpawnProcs", std::move(spawn));
  wire::SpawnAcceptedT accepted;
  accepted.started = 3;
  samples.answer("SpawnAccepted", accepted);
}

void add_lifecycle(Samples& samples) {
  wire::GetStateT get;
  get.mesh = kMesh;
  samples.request("GetState", get);
  samples.request("ListMeshes", wire::ListMeshesT());
  wire::StreamStateT stream;
  stream.mesh = kMesh;
  stream.subscriber = kClient;
  samples.request("StreamState", stream);
  wire::StopStreamT stop_stream;
  stop_stream.mesh = kMesh;
  stop_stream.subscriber = kClient;
  samples.request("StopStream", stop_stream);
  wire::StopProcsT stop;
  stop.mesh = kMesh;
  stop.ranks = {{0, 3}};
  stop.reason = "seen enough";
  stop.requester = kClient;
  stop.grace_ms = 10'000;
  samples.request("StopProcs", stop);
  wire::SignalProcsT signal;
  signal.mesh = kMesh;
  signal.ranks = {{1, 2}};
  signal.signal = 10;
  samples.request("SignalProcs", signal);
  wire::WriteInputT input;
  input.mesh = kMesh;
  input.rank = 1;
  input.data = {'y', '\n'};
  input.end = true;
  samples.request("WriteInput", input);
  wire::RenewLeaseT renew;
  renew.meshes = {kMesh, "other-4fVq"};
  renew.lease_ms = 30'000;
  samples.request("RenewLease", renew);
  samples.request("GetFreePort", wire::GetFreePortT());
  wire::FreePortT port;
  port.port = 40'001;
  samples.answer("FreePort", port);
  samples.request("GetHost", wire::GetHostT());
  wire::HostStateT state;
  state.host = kHost;
  state.version = "0.1.0";
  state.incarnation = 0x2122232425262728;
  state.pid = 815;
  state.containment = "cgroup v2";
  state.live = 8;
  state.node = "node-17";
  samples.answer("HostState", state);
  wire::ShutdownHostT shutdown;
  shutdown.grace_ms = 5000;
  shutdown.in_flight = 16;
  shutdown.reason = "maintenance";
  samples.request("ShutdownHost", shutdown);
  wire::ShutdownSummaryT summary;
  summary.attempted = 8;
  summary.ok = 7;
  summary.failed = 1;
  summary.detail = "rank 3 does not die";
  samples.answer("ShutdownSummary", summary);
}

wire::MeshStateT mesh_state() {
  wire::MeshStateT state;
  state.mesh = kMesh;
  state.region = region();
  state.hosts = {kHost, kOtherHost};
  state.host_index = 1;
  state.owner = kClient;
  state.kind = wire::ProcKind::mesh;
  state.command = "train --fast";
  state.ranks = {rank_state(4), rank_state(7)};
  state.exit_reports = one(exit_report());
  return state;
}

std::unique_ptr<wire::StatusOverlayT> failed_statuses() {
  auto failed = std::make_unique<wire::StatusT>();
  failed->kind = wire::StatusKind::failed;
  failed->reason = "exit 3";
  auto statuses = std::make_unique<wire::StatusOverlayT>();
  statuses->values = one(std::move(failed));
  statuses->runs = {{4, 8, 0, 0}};
  return statuses;
}

std::unique_ptr<wire::MeshOverviewT> mesh_overview() {
  auto mesh = std::make_unique<wire::MeshOverviewT>();
  mesh->mesh = kMesh;
  mesh->overall = wire::StatusKind::failed;
  mesh->generation = 33;
  mesh->monitored = true;
  mesh->ranks = 8;
  mesh->live = 7;
  mesh->failed = 1;
  mesh->region = region();
  mesh->statuses = failed_statuses();
  return mesh;
}

/// What a controller hears and says besides what its first release did.
void add_controller(Samples& samples) {
  wire::SubscribeT subscribe;
  subscribe.subscriber = kClient;
  subscribe.mesh = kMesh;
  subscribe.ranks = {{4, 6}};
  subscribe.again = true;
  samples.request("Subscribe.2", subscribe);
  wire::MeshEventT event;
  event.mesh = kMesh;
  event.host = kHost;
  event.kind = wire::MeshEventKind::query_failed;
  event.snapshot = true;
  event.sequence = 17;
  event.detail = "refused";
  event.generation = 33;
  event.overall = wire::StatusKind::running;
  event.region = region();
  samples.message("MeshEvent.2", std::move(event));
  wire::GetSubscriberCountT get;
  get.mesh = kMesh;
  samples.request("GetSubscriberCount", get);
  wire::SubscriberCountT count;
  count.count = 3;
  samples.answer("SubscriberCount", count);
  wire::MeshHeartbeatT heartbeat;
  heartbeat.poll = 12;
  heartbeat.interval_ms = 10'000;
  heartbeat.sequence = 17;
  heartbeat.late_polls = 1;
  heartbeat.unreachable = {kOtherHost};
  heartbeat.meshes = one(mesh_overview());
  heartbeat.cut = 2;
  samples.message("MeshHeartbeat", std::move(heartbeat));
  wire::ControllerStateT state;
  state.controller = "tcp:h1:7420,controller";
  state.poll = 12;
  state.interval_ms = 10'000;
  state.late_polls = 1;
  state.subscribers = 3;
  state.unreachable = {kOtherHost};
  state.meshes = one(mesh_overview());
  state.more = true;
  samples.answer("ControllerState", std::move(state));
}

void add_supervision(Samples& samples) {
  samples.answer("MeshState", mesh_state());
  wire::MeshListT list;
  list.host = kHost;
  list.meshes = one(std::make_unique<wire::MeshStateT>(mesh_state()));
  samples.answer("MeshList", std::move(list));
  wire::StateChangedT changed;
  changed.mesh = kMesh;
  changed.host = kHost;
  changed.ranks = {rank_state(7)};
  changed.exit_reports = one(exit_report());
  samples.message("StateChanged", std::move(changed));
  wire::SubscribeT subscribe;
  subscribe.subscriber = kClient;
  subscribe.mesh = kMesh;
  samples.request("Subscribe", subscribe);
  wire::UnsubscribeT unsubscribe;
  unsubscribe.subscriber = kClient;
  unsubscribe.mesh = kMesh;
  samples.request("Unsubscribe", unsubscribe);
  wire::MeshEventT event;
  event.mesh = kMesh;
  event.host = kHost;
  event.poll = 12;
  event.ranks = {rank_state(7)};
  event.exit_reports = one(exit_report());
  samples.message("MeshEvent", std::move(event));
  add_controller(samples);

  auto chunk = std::make_unique<wire::OutputChunkT>();
  chunk->rank = 7;
  chunk->stream = wire::Stream::err;
  chunk->data = {'h', 'i', '\n'};
  wire::OutputT output;
  output.mesh = kMesh;
  output.chunks = one(std::move(chunk));
  output.ended = {4, 5};
  samples.message("Output", std::move(output));
  wire::OutputTakenT taken;
  taken.mesh = kMesh;
  taken.bytes = 65'536;
  samples.message("OutputTaken", taken);
}

void add_procs(Samples& samples) {
  wire::ProcReadyT ready;
  ready.proc = kProc;
  ready.incarnation = 9;
  ready.pid = 4711;
  samples.request("ProcReady", ready);
  wire::ProcHeartbeatT heartbeat;
  heartbeat.proc = kProc;
  samples.request("ProcHeartbeat", heartbeat);
  wire::StopAndExitT stop;
  stop.code = 143;
  stop.grace_ms = 5000;
  stop.reason = "seen enough";
  samples.request("StopAndExit", stop);
  wire::ExitT exit;
  exit.code = 75;
  samples.message("Exit", exit);
}

void add_logs(Samples& samples) {
  auto chunk = std::make_unique<wire::OutputChunkT>();
  chunk->rank = 7;
  chunk->stream = wire::Stream::out;
  chunk->data = {'h', 'i'};
  chunk->offset = 5'000'000'000;
  wire::OutputT output;
  output.mesh = kMesh;
  output.chunks = one(std::move(chunk));
  output.ends = {{7, 5'000'000'002, 17}};
  samples.message("Output.2", std::move(output));
  wire::OutputTakenT taken;
  taken.mesh = kMesh;
  taken.positions = {{7, 5'000'000'002, wire::Stream::out}};
  taken.ended = {4};
  taken.resend = true;
  samples.message("OutputTaken.2", taken);

  wire::StreamLogsT stream;
  stream.mesh = kMesh;
  stream.subscriber = kClient;
  stream.stream = 3;
  stream.ranks = {{0, 6}, {7, 8}};
  stream.streams = 2;
  stream.tail = 100;
  stream.from = {{7, 4096, wire::Stream::err}};
  stream.follow = true;
  stream.window = 65'536;
  samples.request("StreamLogs", stream);
  wire::LogStartedT started;
  started.ranks = {{7, 8}};
  started.positions = {{7, 4096, wire::Stream::err}};
  samples.answer("LogStarted", started);
  auto logged = std::make_unique<wire::LogChunkT>();
  logged->rank = 7;
  logged->stream = wire::Stream::err;
  logged->offset = 4096;
  logged->data = {0, 255, '\n'};
  wire::LogT log;
  log.mesh = kMesh;
  log.stream = 3;
  log.sequence = 2;
  log.chunks = one(std::move(logged));
  log.ends = {{7, 4099, wire::Stream::err}};
  log.done = true;
  log.since = 2;
  samples.message("Log", std::move(log));
  wire::LogTakenT log_taken;
  log_taken.mesh = kMesh;
  log_taken.stream = 3;
  log_taken.sequence = 2;
  log_taken.resend = true;
  samples.request("LogTaken", log_taken);
  wire::StopLogsT stop;
  stop.mesh = kMesh;
  stop.stream = 3;
  samples.request("StopLogs", stop);
}

wire::SpawnProcsT spawn_with_settings() {
  wire::SpawnProcsT spawn;
  spawn.mesh = kMesh;
  spawn.region = region();
  spawn.hosts = {kHost};
  spawn.create_ranks = {{0, 1}};
  spawn.command = std::make_unique<wire::CommandT>();
  spawn.command->program = "train";
  spawn.command->arguments = {"train"};
  spawn.command->settings = std::make_unique<wire::ProcSettingsT>();
  auto& settings = *spawn.command->settings;
  settings.limits = {{1024, UINT64_MAX, 7}};
  settings.nice = -5;
  settings.umask = 0027;
  settings.cpus = {0, 3};
  settings.uid = 1000;
  settings.gid = 100;
  settings.groups = {100, 27};
  settings.same_session = true;
  settings.no_subreaper = true;
  spawn.owner = kClient;
  return spawn;
}

std::unique_ptr<wire::LedgerProcT> ledger_proc() {
  auto proc = std::make_unique<wire::LedgerProcT>();
  proc->state = std::make_unique<wire::RankState>(rank_state(7));
  proc->id = 12;
  proc->slot = 3;
  proc->said_ready = true;
  proc->never_born = true;
  proc->gone = true;
  proc->held_signals = 1 << 10;
  proc->sent_signals = 1 << 15;
  proc->stop = std::make_unique<wire::LedgerStop>(1'000'000'001, 2'000'000'002,
                                                  wire::StopStep::term, true, true);
  proc->stopped_by = kClient;
  proc->stop_reason = "seen enough";
  proc->failure = std::make_unique<wire::LedgerFailureT>();
  proc->failure->code = wire::ErrorCode::exec_failed;
  proc->failure->os_error = 2;
  proc->failure->text = "no such program";
  proc->exit_report = exit_report();
  proc->exit_reported = true;
  proc->input_closed = true;
  proc->out = std::make_unique<wire::LedgerStream>(5'000'000'002, 4'900'000'001);
  proc->err = std::make_unique<wire::LedgerStream>(17, 1);
  return proc;
}

void add_takeover(Samples& samples) {
  samples.request("SpawnProcs.2", spawn_with_settings());
  wire::LedgerEntryT entry;
  entry.mesh = kMesh;
  entry.spawn = std::make_unique<wire::SpawnProcsT>(spawn_with_settings());
  entry.state = std::make_unique<wire::LedgerMeshT>();
  entry.state->owner_gone = true;
  entry.state->subscribers = {kClient};
  entry.state->lease_ms = 30'000;
  entry.procs = one(ledger_proc());
  samples.table<wire::LedgerEntry>("LedgerEntry", "LedgerEntry", entry);
  wire::LedgerEntryT last;
  last.mesh = kMesh;
  last.forgotten = true;
  samples.table<wire::LedgerEntry>("LedgerEntry.2", "LedgerEntry", last);
}

std::unique_ptr<wire::ExitReportT> exit_report_of_a_consequence() {
  auto full = exit_report();
  full->cause = wire::Cause::killed_after_grace;
  full->consequence = true;
  full->because = 3;
  return full;
}

void add_events(Samples& samples) {
  wire::StopProcsT stop;
  stop.mesh = kMesh;
  stop.ranks = {wire::RankInterval(4, 8)};
  stop.reason = "rank 3 failed: exit 1";
  stop.requester = kClient;
  stop.grace_ms = 10'000;
  stop.because = 3;
  samples.request("StopProcs.2", stop);
  wire::StateChangedT changed;
  changed.mesh = kMesh;
  changed.host = kHost;
  changed.exit_reports = one(exit_report_of_a_consequence());
  samples.message("StateChanged.4", std::move(changed));
  wire::LedgerEntryT ledger;
  ledger.mesh = kMesh;
  ledger.procs = one(ledger_proc());
  ledger.procs.front()->stop_cause = wire::Cause::owner_gone;
  ledger.procs.front()->because = 3;
  ledger.procs.front()->failure->cause = wire::Cause::not_ready;
  samples.table<wire::LedgerEntry>("LedgerEntry.5", "LedgerEntry", ledger);
  ledger.procs.front()->out_before =
      std::make_unique<wire::LedgerStream>(4'000'000'003, 3'900'000'001);
  ledger.procs.front()->err_before = std::make_unique<wire::LedgerStream>(16, 0);
  samples.table<wire::LedgerEntry>("LedgerEntry.6", "LedgerEntry", ledger);
  wire::GetEventsT get;
  get.mesh = kMesh;
  get.from = 4'294'967'297;
  samples.request("GetEvents", get);

  wire::EventListT list;
  list.host = kHost;
  auto asked = std::make_unique<wire::EventT>();
  asked->kind = wire::EventKind::stop_asked;
  asked->time_ns = 1'700'000'000'000'000'003;
  asked->mesh = kMesh;
  asked->ranks = {wire::RankInterval(4, 8)};
  asked->by = kClient;
  asked->text = "rank 3 failed: exit 1";
  asked->because = 3;
  list.events.push_back(std::move(asked));
  auto ended = std::make_unique<wire::EventT>();
  ended->kind = wire::EventKind::proc_ended;
  ended->time_ns = 1'700'000'000'000'000'004;
  ended->mesh = kMesh;
  ended->point = "host=1/2,gpu=3/4";
  ended->state = std::make_unique<wire::RankState>(rank_state(7));
  ended->exit_report = exit_report_of_a_consequence();
  list.events.push_back(std::move(ended));
  list.next = 4'294'967'999;
  list.more = true;
  samples.answer("EventList", std::move(list));
}

std::unique_ptr<wire::StatusT> status(wire::StatusKind kind, const std::string& reason = {},
                                      std::uint64_t timeout_ms = 0) {
  auto status = std::make_unique<wire::StatusT>();
  status->kind = kind;
  status->reason = reason;
  status->timeout_ms = timeout_ms;
  return status;
}

void add_values(Samples& samples) {
  const auto statuses = [] {
    std::vector<std::unique_ptr<wire::StatusT>> list;
    list.push_back(status(wire::StatusKind::running));
    list.push_back(status(wire::StatusKind::failed, "exit 3"));
    list.push_back(status(wire::StatusKind::timeout, {}, 30'000));
    return list;
  };
  wire::StatusMeshT mesh;
  mesh.region = region();
  mesh.values = statuses();
  mesh.runs = {{0, 7, 0, 0}, {7, 8, 1, 0}};
  samples.table<wire::StatusMesh>("StatusMesh", "StatusMesh", mesh);
  mesh.runs.clear();
  mesh.cells = {0, 0, 1, 0, 0, 2, 0, 0};
  samples.table<wire::StatusMesh>("StatusMesh.2", "StatusMesh", mesh);
  mesh.cells.clear();
  mesh.wide_cells = {0, 0, 1, 0, 0, 2, 0, 0};
  samples.table<wire::StatusMesh>("StatusMesh.3", "StatusMesh", mesh);

  auto blob = std::make_unique<wire::BlobT>();
  blob->data = {0, 255};
  wire::PartialReplyT reply;
  reply.value = std::make_unique<wire::ReplyValueT>();
  reply.value->kind = wire::ReplyKind::overlay;
  reply.value->integer = -7;
  reply.value->number = 2.5;
  reply.value->blob = {1, 2};
  reply.value->statuses = std::make_unique<wire::StatusOverlayT>();
  reply.value->statuses->values = statuses();
  reply.value->statuses->runs = {{4, 8, 2, 0}};
  reply.value->overlay = std::make_unique<wire::BlobOverlayT>();
  reply.value->overlay->ranks = {{4, 8}};
  reply.value->overlay->values = one(std::move(blob));
  reply.ranks = {{4, 8}};
  samples.table<wire::PartialReply>("PartialReply", "PartialReply", reply);
}

std::unique_ptr<wire::StatusOverlayT> two_statuses() {
  auto overlay = std::make_unique<wire::StatusOverlayT>();
  overlay->values.push_back(status(wire::StatusKind::running));
  overlay->values.push_back(status(wire::StatusKind::failed, "killed by SIGSEGV"));
  overlay->runs = {{4, 7, 0, 0}, {7, 8, 1, 0}};
  return overlay;
}

wire::LaunchTimes launch_times() {
  const std::int64_t t = 1'700'000'000'000'000'000;
  return {7, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6};
}

wire::RankTrouble rank_trouble(wire::Trouble trouble) {
  return {7, 0x0102030405060708, 1'700'000'000'000'000'002, 12'345, trouble, 'T'};
}

wire::RankUsage rank_usage(std::uint64_t rank) {
  return {rank, 1'700'000'000'000'000'001, 3'500'000, 250'000, 64 << 20, 96 << 20, 12, 34, 1750, 0};
}

void add_usage(Samples& samples) {
  auto limited = spawn_with_settings();
  limited.command->settings->memory_limit = 1ULL << 30;
  limited.command->settings->pids_limit = 64;
  limited.command->settings->cpu_limit = 1500;
  samples.request("SpawnProcs.3", limited);
  limited.restarts = 2;
  samples.request("SpawnProcs.4", limited);
  limited.may_restart = true;
  samples.request("SpawnProcs.5", limited);
  limited.procs_per_process = 4;
  samples.request("SpawnProcs.6", limited);
  wire::GetStateT get;
  get.mesh = kMesh;
  get.usage = true;
  samples.request("GetState.2", get);
  wire::ListMeshesT list;
  list.usage = true;
  samples.request("ListMeshes.3", list);
  auto state = mesh_state();
  state.usage = {rank_usage(4), rank_usage(7)};
  state.exit_reports.front()->usage = std::make_unique<wire::RankUsage>(rank_usage(4));
  samples.answer("MeshState.4", std::move(state));
}

wire::HostStateT host_facts() {
  wire::HostStateT state;
  state.host = kHost;
  state.started_ns = 1'700'000'000'000'000'000;
  state.cgroup = "/meshbus.slice/host-1";
  state.cpus = 64;
  state.load = 12'500;
  state.memory = 256ULL << 30;
  state.memory_available = 200ULL << 30;
  state.events_end = 123'456;
  return state;
}

wire::HostStateT broker_facts() {
  wire::HostStateT state;
  state.host = kHost;
  state.incarnation = 77;
  auto broker = std::make_unique<wire::BrokerStateT>();
  broker->received = 1001;
  broker->delivered = 1002;
  broker->returned = 1003;
  broker->dropped = 1004;
  broker->refused = 1005;
  broker->held = 1006;
  broker->peers = 1007;
  auto queue = std::make_unique<wire::PeerQueueT>();
  queue->peer = kClient;
  queue->bytes = 4096;
  queue->messages = 4;
  queue->waits_ms = 2500;
  broker->queues = one(std::move(queue));
  auto link = std::make_unique<wire::LinkStateT>();
  link->host = kHost;
  link->up = true;
  link->messages = 5;
  link->bytes = 640;
  broker->links = one(std::move(link));
  state.broker = std::move(broker);
  return state;
}

void add_changes(Samples& samples) {
  wire::ListMeshesT list;
  list.changes = true;
  list.since = 41;
  list.incarnation = 77;
  list.from = kMesh;
  list.from_rank = 7;
  samples.request("ListMeshes.4", list);
  wire::MeshStateT state = mesh_state();
  auto line = std::make_unique<wire::RankLineT>();
  line->rank = 4;
  line->bytes = {'s', 't', 'e', 'p', ' ', '3'};
  state.lines = one(std::move(line));
  samples.answer("MeshState.8", std::move(state));
  wire::MeshListT page;
  page.host = kHost;
  page.more = true;
  page.sequence = 42;
  page.since = 41;
  page.incarnation = 77;
  page.next = kMesh;
  page.next_rank = 7;
  page.forgotten = {kMesh};
  page.facts = std::make_unique<wire::HostStateT>(host_facts());
  samples.answer("MeshList.3", std::move(page));
}

void add_states(Samples& samples) {
  add_changes(samples);
  wire::ListMeshesT list;
  list.after = kMesh;
  samples.request("ListMeshes.2", list);
  wire::MeshListT page;
  page.host = kHost;
  page.more = true;
  page.after = kMesh;
  samples.answer("MeshList.2", std::move(page));
  auto state = mesh_state();
  state.cut = 2;
  samples.answer("MeshState.2", std::move(state));
  wire::StateChangedT snapshot;
  snapshot.mesh = kMesh;
  snapshot.host = kHost;
  snapshot.ranks = {rank_state(7)};
  snapshot.snapshot = true;
  samples.message("StateChanged.2", std::move(snapshot));

  auto anew = mesh_state();
  anew.ownership = std::make_unique<wire::OwnershipT>();
  anew.ownership->owner = kClient;
  anew.ownership->may_restart = true;
  samples.answer("MeshState.7", std::move(anew));
  auto troubled = mesh_state();
  troubled.troubles = {rank_trouble(wire::Trouble::slow)};
  samples.answer("MeshState.6", std::move(troubled));
  wire::StateChangedT frozen;
  frozen.mesh = kMesh;
  frozen.host = kHost;
  frozen.troubles = {rank_trouble(wire::Trouble::frozen)};
  samples.message("StateChanged.6", std::move(frozen));
  wire::MeshEventT told;
  told.mesh = kMesh;
  told.host = kHost;
  told.troubles = {rank_trouble(wire::Trouble::frozen)};
  samples.message("MeshEvent.3", std::move(told));

  auto launched = mesh_state();
  launched.launch = {launch_times()};
  samples.answer("MeshState.3", std::move(launched));
  wire::StateChangedT ready;
  ready.mesh = kMesh;
  ready.host = kHost;
  ready.launch = {launch_times()};
  samples.message("StateChanged.3", std::move(ready));
  wire::ProcReadyT proc;
  proc.proc = kProc;
  proc.connected_ns = 1'700'000'000'000'000'004;
  proc.hello_ns = 1'700'000'000'000'000'005;
  samples.request("ProcReady.2", proc);
  wire::LedgerEntryT entry;
  entry.mesh = kMesh;
  entry.procs = one(ledger_proc());
  entry.procs[0]->launch = std::make_unique<wire::LaunchTimes>(launch_times());
  entry.procs[0]->launch_told = true;
  samples.table<wire::LedgerEntry>("LedgerEntry.4", "LedgerEntry", entry);

  wire::GetRankStatusT get;
  get.mesh = kMesh;
  get.ranks = {{0, 6}, {7, 8}};
  samples.request("GetRankStatus", get);
  wire::WaitRankStatusT wait;
  wait.mesh = kMesh;
  wait.ranks = {{0, 6}, {7, 8}};
  wait.minimum = wire::StatusKind::running;
  wait.wait_ms = 4000;
  wait.asker = kClient;
  samples.request("WaitRankStatus", wait);
  wire::RankStatusesT statuses;
  statuses.mesh = kMesh;
  statuses.host = kHost;
  statuses.statuses = two_statuses();
  samples.answer("RankStatuses", std::move(statuses));
}

void add_drain(Samples& samples) {
  wire::DrainHostT drain;
  drain.owner = kClient;
  drain.mesh = kMesh;
  drain.reason = "maintenance";
  drain.requester = kClient;
  drain.grace_ms = 5000;
  drain.in_flight = 16;
  drain.hold = true;
  samples.request("DrainHost", drain);
  wire::ResumeHostT resume;
  resume.owner = kClient;
  resume.mesh = kMesh;
  samples.request("ResumeHost", resume);
  wire::ShutdownHostT shutdown;
  shutdown.requester = kClient;
  samples.request("ShutdownHost.2", shutdown);
  auto under_way = std::make_unique<wire::DrainT>();
  under_way->owner = kClient;
  under_way->mesh = kMesh;
  under_way->reason = "maintenance";
  under_way->requester = kClient;
  under_way->hold = true;
  under_way->left = 3;
  wire::HostStateT state;
  state.host = kHost;
  state.drains = one(std::move(under_way));
  samples.answer("HostState.2", state);
  state.refused = 9;
  samples.answer("HostState.3", std::move(state));
  samples.answer("HostState.4", host_facts());
  samples.answer("HostState.5", broker_facts());

  auto known = std::make_unique<wire::LedgerDrainT>();
  known->owner = kClient;
  known->mesh = kMesh;
  known->reason = "maintenance";
  known->requester = kClient;
  known->grace_ms = 5000;
  known->in_flight = 16;
  known->hold = true;
  wire::LedgerEntryT entry;
  entry.host = std::make_unique<wire::LedgerHostT>();
  entry.host->drains = one(std::move(known));
  samples.table<wire::LedgerEntry>("LedgerEntry.3", "LedgerEntry", entry);
}

template <typename NativeBody>
void add_event(Samples& samples, const std::string& name, NativeBody body) {
  wire::MonitorEventT event;
  event.host = kHost;
  event.incarnation = 0x1112131415161718;
  event.sequence = 9;
  event.time_ns = 1'700'000'000'000'000'001;
  event.body.Set(std::move(body));
  samples.table<wire::MonitorEvent>("MonitorEvent." + name, "MonitorEvent", event, "MBM1");
}

std::unique_ptr<wire::QueueStateT> queue() {
  auto queue = std::make_unique<wire::QueueStateT>();
  queue->peer = kProc;
  queue->bytes = 1 << 20;
  queue->messages = 64;
  queue->waits_ms = 1500;
  return queue;
}

void add_tap(Samples& samples) {
  wire::TapBatchT batch;
  batch.host = kHost;
  batch.incarnation = 0x1112131415161718;
  batch.stream = 2;
  batch.first = 9;
  batch.entries = {
      wire::TapEntry(envelope(wire::Kind::message, 9), 1'700'000'000'000'000'001, 5, 0)};
  batch.bodies = {'h', 'e', 'l', 'l', 'o'};
  auto name = std::make_unique<wire::TapNameT>();
  name->key = 0x084201c14df239e4;
  name->text = kProc;
  batch.names.push_back(std::move(name));
  batch.filter = "kind=message";
  batch.bodies_limit = 64;
  batch.refusal = "too many";
  samples.table<wire::TapBatch>("TapBatch", "TapBatch", batch, "MBT1");
}

void add_monitor(Samples& samples) {
  wire::PeerUpT up;
  up.peer = kProc;
  up.kind = wire::PeerKind::proc;
  up.role = wire::Role::proc;
  up.incarnation = 9;
  up.pid = 4711;
  add_event(samples, "PeerUp", up);
  wire::PeerDownT down;
  down.peer = kProc;
  down.kind = wire::PeerKind::proc;
  down.incarnation = 9;
  down.pid = 4711;
  down.reason = "its connection ended";
  add_event(samples, "PeerDown", down);
  wire::PeerRefusedT refused;
  refused.code = wire::ErrorCode::unauthorised;
  refused.reason = "its token is wrong";
  add_event(samples, "PeerRefused", refused);
  wire::LinkUpT link_up;
  link_up.host = kOtherHost;
  link_up.inbound = true;
  link_up.incarnation = 10;
  add_event(samples, "LinkUp", link_up);
  wire::LinkDownT link_down;
  link_down.host = kOtherHost;
  link_down.inbound = true;
  link_down.reason = "it ended";
  add_event(samples, "LinkDown", link_down);
  wire::MessageReturnedT returned;
  returned.envelope = std::make_unique<wire::Envelope>(envelope(wire::Kind::call, 9));
  returned.code = wire::ErrorCode::no_such_proc;
  returned.reason = "nobody there";
  add_event(samples, "MessageReturned", std::move(returned));
  wire::MessageDroppedT dropped;
  dropped.envelope = std::make_unique<wire::Envelope>(envelope(wire::Kind::message, 9));
  dropped.reason = wire::DropReason::false_source;
  add_event(samples, "MessageDropped", std::move(dropped));
  add_event(samples, "QueueState", *queue());
  wire::BrokerCountersT counters;
  counters.received = 1;
  counters.originated = 2;
  counters.delivered = 3;
  counters.handled = 4;
  counters.returned = 5;
  counters.dropped_no_return = 6;
  counters.dropped_not_needed = 7;
  counters.dropped_false_source = 8;
  counters.malformed_frames = 9;
  counters.ignored_frames = 10;
  counters.refused_hellos = 11;
  counters.held = 12;
  counters.peers = 13;
  counters.queues = one(queue());
  counters.fate_unknown = 14;
  counters.dropped_old_incarnation = 15;
  counters.replayed_frames = 16;
  counters.duplicate_frames = 17;
  counters.refused_keys = 18;
  counters.refused_handshakes = 19;
  counters.refused_messages = 20;
  add_event(samples, "BrokerCounters", std::move(counters));
}

std::unique_ptr<wire::ActorStateT> actor_state() {
  auto state = std::make_unique<wire::ActorStateT>();
  state->name = "tally";
  state->pid = 2;
  state->type = "counter";
  state->create_rank = 7;
  state->parent = 1;
  state->status = wire::StatusKind::failed;
  state->generation = 3;
  state->changed_ns = 1'700'000'000'000'000'001;
  state->reason = "cannot write";
  state->message = "add";
  state->causes = {"disk full", "quota"};
  state->handled = 41;
  state->dropped = 5;
  return state;
}

void add_actors(Samples& samples) {
  wire::SpawnActorT spawn;
  spawn.type = "counter";
  spawn.name = "tally";
  spawn.params = {1, 2, 255};
  spawn.create_rank = 7;
  spawn.owner = kClient;
  samples.request("SpawnActor", spawn);
  wire::StopActorT stop;
  stop.name = "tally";
  stop.pid = 2;
  stop.reason = "seen enough";
  stop.grace_ms = 10'000;
  samples.request("StopActor", stop);
  wire::GetActorStateT get;
  get.name = "tally";
  get.pid = 2;
  samples.request("GetActorState", get);
  samples.answer("ActorState", *actor_state());
  wire::ListActorsT list;
  list.after = "tally";
  list.after_pid = 2;
  samples.request("ListActors", list);
  wire::ActorListT actors;
  actors.actors = one(actor_state());
  actors.more = true;
  samples.answer("ActorList", std::move(actors));
  wire::StreamActorsT stream;
  stream.name = "tally";
  stream.subscriber = kClient;
  samples.request("StreamActors", stream);
  wire::StopActorStreamT stop_stream;
  stop_stream.name = "tally";
  stop_stream.subscriber = kClient;
  samples.request("StopActorStream", stop_stream);
  wire::ActorEventT event;
  event.actors = one(actor_state());
  samples.message("ActorEvent", std::move(event));
}

wire::BootstrapT bootstrap() {
  auto proc = std::make_unique<wire::BootstrapProcT>();
  proc->proc = kProc;
  proc->incarnation = 0x0102030405060708;
  proc->token = {1, 2, 3, 255};
  wire::BootstrapT bootstrap;
  bootstrap.procs = one(std::move(proc));
  bootstrap.broker = "ipc:///run/user/0/meshbus/host-5be2a0c1/bus";
  bootstrap.host = kHost;
  bootstrap.mesh = kMesh;
  bootstrap.region = region();
  bootstrap.hosts = {kOtherHost, kHost};
  bootstrap.rank = 7;
  bootstrap.config = one(pair("heartbeat", "2s"));
  bootstrap.away_ms = 10'000;
  bootstrap.heartbeat_ms = 2000;
  bootstrap.version = 1;
  bootstrap.oldest = 1;
  bootstrap.release = "0.1.0";
  return bootstrap;
}

wire::CastHeadT cast_head() {
  wire::CastHeadT head;
  head.mesh = kMesh;
  head.runs = {wire::CastRun(0x0102030405060708, 2, 3, 4),
               wire::CastRun(0x1112131415161718, 5, 1, 1)};
  head.view = region();
  return head;
}

void add_relay(Samples& samples) {
  wire::DetachedCastT elsewhere;
  elsewhere.number = 0x0102030405060708;
  elsewhere.digest = {1, 2, 3, 4};
  samples.table<wire::DetachedCast>("DetachedCast", "DetachedCast", elsewhere);
  wire::PassOnT pass_on;
  pass_on.hosts = {kHost, kOtherHost};
  samples.table<wire::PassOn>("PassOn", "PassOn", pass_on);
}

void add_replies(Samples& samples) {
  wire::CollectAnswersT order;
  order.ticket = 0x0102030405060708;
  order.mesh = kMesh;
  order.reducer = "sum";
  order.ranks = {wire::CollectedRanks(0, 4), wire::CollectedRanks(6, 7)};
  order.asker = kHost + ",client-13Se1Maqzryj";
  order.limit_ms = 30'000;
  order.parts = true;
  samples.table<wire::CollectAnswers>("CollectAnswers", "CollectAnswers", order);
  wire::CollectedT collected;
  collected.reduced = {1, 2, 3};
  collected.problems.push_back(std::make_unique<wire::CollectProblemT>());
  collected.problems[0]->code = 10;
  collected.problems[0]->detail = "boom";
  collected.problems[0]->ranks = {wire::CollectedRanks(4, 5)};
  collected.parts = 2;
  samples.table<wire::Collected>("Collected", "Collected", collected);
}

void add_settings(Samples& samples) {
  wire::SettingsCallT call;
  call.changes.push_back(std::make_unique<wire::LiveSettingT>());
  call.changes[0]->key = "log.level";
  call.changes[0]->value = "debug";
  samples.table<wire::SettingsCall>("SettingsCall", "SettingsCall", call);
  wire::SettingsAnswerT answer;
  answer.settings.push_back(std::make_unique<wire::LiveSettingT>());
  answer.settings[0]->key = "terminate.grace";
  answer.settings[0]->value = "5s";
  answer.settings[0]->source = "launcher";
  samples.table<wire::SettingsAnswer>("SettingsAnswer", "SettingsAnswer", answer);
}

/// Two messages whose bodies are padded differently, then what is detached, part behind part.
std::string frame(bool link) {
  FrameWriter writer(wire::Lane::data, link);
  writer.add(envelope(wire::Kind::message, 9), "12345");
  const wire::CallHeader header(0x0102030405060708, 5000, wire::ErrorCode::call_error, 0x0a0b);
  writer.add(envelope(wire::Kind::error, 10),
             std::string(reinterpret_cast<const char*>(&header), sizeof header) + "it failed!");
  if (!link) writer.add(envelope(wire::Kind::message, 11), std::string(kInlineLimit + 1, 'x'));
  Frame frame = writer.finish();
  frame.set_credit(0x3132333435363738);
  if (link) frame.set_link(0x4142434445464748, 0x5152535455565758);
  return frame.parts.front().to_string();
}

std::unique_ptr<wire::OwnershipT> ownership() {
  auto ownership = std::make_unique<wire::OwnershipT>();
  ownership->owner = kController;
  ownership->lease_ms = 60'000;
  ownership->loss = wire::OwnerLoss::detach;
  ownership->gone = true;
  return ownership;
}

void add_handover(Samples& samples) {
  wire::HandOverT order;
  order.mesh = kMesh;
  order.owner = kController;
  order.lease_ms = 60'000;
  order.loss = wire::OwnerLoss::lapse;
  samples.request("HandOver", order);
  wire::OfferMeshT offer;
  offer.mesh = kMesh;
  offer.hosts = {kHost, "unix:/run/b"};
  samples.request("OfferMesh", std::move(offer));
  wire::OfferAcceptedT accepted;
  accepted.owner = kController;
  accepted.lease_ms = 60'000;
  samples.answer("OfferAccepted", accepted);
  wire::MeshStateT state;
  state.mesh = kMesh;
  state.region = region();
  state.hosts = {kHost};
  state.ownership = ownership();
  samples.answer("MeshState.5", std::move(state));
  wire::StateChangedT changed;
  changed.mesh = kMesh;
  changed.host = kHost;
  changed.ownership = ownership();
  samples.message("StateChanged.5", std::move(changed));
  wire::ControllerStateT controller;
  controller.controller = kController;
  controller.meshes.push_back(std::make_unique<wire::MeshOverviewT>());
  controller.meshes.back()->mesh = kMesh;
  controller.meshes.back()->ownership = ownership();
  controller.meshes.back()->owned = true;
  samples.answer("ControllerState.2", std::move(controller));
  wire::LedgerEntryT ledger;
  ledger.mesh = kMesh;
  ledger.state = std::make_unique<wire::LedgerMeshT>();
  ledger.state->owner = kController;
  ledger.state->handed_by = kClient;
  ledger.state->loss = wire::OwnerLoss::detach;
  samples.table<wire::LedgerEntry>("LedgerEntry.7", "LedgerEntry", ledger);
}

}  // namespace

std::vector<WireSample> wire_samples() {
  Samples samples;
  add_bus(samples);
  add_spawn(samples);
  add_lifecycle(samples);
  add_supervision(samples);
  add_procs(samples);
  add_logs(samples);
  add_takeover(samples);
  add_events(samples);
  add_values(samples);
  add_states(samples);
  add_usage(samples);
  add_drain(samples);
  add_monitor(samples);
  add_tap(samples);
  add_actors(samples);
  add_handover(samples);
  samples.table<wire::Bootstrap>("Bootstrap", "Bootstrap", bootstrap());
  auto several = bootstrap();
  several.procs[0]->rank = 7;
  samples.table<wire::Bootstrap>("Bootstrap.2", "Bootstrap", several);
  samples.table<wire::CastHead>("CastHead", "CastHead", cast_head());
  add_relay(samples);
  add_replies(samples);
  add_settings(samples);
  samples.list.push_back({"Frame", Form::frame, frame(/*link=*/false)});
  samples.list.push_back({"LinkFrame", Form::frame, frame(/*link=*/true)});
  return std::move(samples.list);
}

}  // namespace meshbus::test
