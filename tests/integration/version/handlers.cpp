// Every message of the protocol, sent to every role: the roles that take it do, all others refuse
// it with a text. A message that is added to the union makes this fail until it is decided which
// roles take it.
#include <map>
#include <optional>

#include "common/bus/session.h"
#include "common/security/token.h"
#include "common/wire/dispatcher.h"
#include "common/wire/role_word.h"
#include "tests/support/body_union.h"
#include "tests/support/golden.h"
#include "tests/world/client_library.h"
#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using wire::Body;

namespace {

/// The least role that may send it; nothing = it is refused from every sender.
using Takes = std::optional<Role>;
constexpr Takes no;

struct Row {
  Takes broker, agent, proc, client, controller;
};

/// Answers (Welcome, Ack, MeshState, ...) are taken by the peer that asked, found by their id, and
/// Undeliverable from brokers only: as requests all of them are refused. MeshEvent and
/// MeshHeartbeat go to subscribers, and none of these five is one.
const std::map<Body, Row>& rows() {
  constexpr Takes observe = Role::observe;
  constexpr Takes operate = Role::operate;
  constexpr Takes host = Role::host;
  static const std::map<Body, Row> rows = {
      {Body::Hello, {Role::none, no, no, no, no}},
      {Body::Welcome, {no, no, no, no, no}},
      {Body::Heartbeat, {observe, no, no, no, no}},
      {Body::Bye, {observe, no, no, no, no}},
      {Body::Introduce, {observe, no, no, no, no}},
      {Body::Watch, {observe, no, no, no, no}},
      {Body::Gone, {no, Role::broker, no, no, no}},
      {Body::Undeliverable, {no, no, no, no, no}},
      {Body::Ack, {no, no, no, no, no}},
      {Body::Refusal, {no, no, no, no, no}},
      {Body::SpawnProcs, {no, operate, no, no, no}},
      {Body::SpawnAccepted, {no, no, no, no, no}},
      {Body::GetState, {no, observe, no, no, observe}},
      {Body::ListMeshes, {no, observe, no, no, observe}},
      {Body::StreamState, {no, observe, no, no, no}},
      {Body::StopStream, {no, observe, no, no, no}},
      {Body::StopProcs, {no, operate, no, no, operate}},
      {Body::SignalProcs, {no, operate, no, no, no}},
      {Body::WriteInput, {no, operate, no, no, no}},
      {Body::RenewLease, {no, operate, no, no, no}},
      {Body::GetFreePort, {no, operate, no, no, no}},
      {Body::FreePort, {no, no, no, no, no}},
      {Body::GetHost, {observe, observe, no, no, no}},
      {Body::HostState, {no, no, no, no, no}},
      {Body::ShutdownHost, {no, operate, no, no, no}},
      {Body::ShutdownSummary, {no, no, no, no, no}},
      {Body::MeshState, {no, no, no, no, no}},
      {Body::MeshList, {no, no, no, no, no}},
      {Body::StateChanged, {no, no, no, host, host}},
      {Body::Subscribe, {no, no, no, no, observe}},
      {Body::Unsubscribe, {no, no, no, no, observe}},
      {Body::MeshEvent, {no, no, no, no, no}},
      {Body::Output, {no, no, no, host, no}},
      {Body::OutputTaken, {no, operate, no, no, no}},
      {Body::ProcReady, {no, Role::proc, no, no, no}},
      {Body::ProcHeartbeat, {no, Role::proc, no, no, no}},
      {Body::StopAndExit, {no, no, host, no, operate}},
      {Body::Exit, {no, no, host, no, no}},
      {Body::StreamLogs, {no, observe, no, no, no}},
      {Body::LogStarted, {no, no, no, no, no}},
      {Body::Log, {no, no, no, host, no}},
      {Body::LogTaken, {no, observe, no, no, no}},
      {Body::StopLogs, {no, observe, no, no, no}},
      {Body::GetRankStatus, {no, observe, no, no, no}},
      {Body::WaitRankStatus, {no, observe, no, no, no}},
      {Body::RankStatuses, {no, no, no, no, no}},
      {Body::DrainHost, {no, operate, no, no, no}},
      {Body::ResumeHost, {no, operate, no, no, no}},
      {Body::GetEvents, {operate, observe, no, no, no}},
      {Body::EventList, {no, no, no, no, no}},
      {Body::Taken, {no, no, no, no, no}},
      {Body::AskTaken, {no, observe, observe, observe, observe}},
      {Body::DirectRule, {no, no, no, no, no}},
      {Body::DirectTraffic, {observe, no, no, no, no}},
      {Body::SpawnActor, {no, no, operate, no, no}},
      {Body::StopActor, {no, no, operate, no, no}},
      {Body::GetActorState, {no, no, observe, no, no}},
      {Body::ActorState, {no, no, no, no, no}},
      {Body::ListActors, {no, no, observe, no, no}},
      {Body::ActorList, {no, no, no, no, no}},
      {Body::StreamActors, {no, no, observe, no, no}},
      {Body::StopActorStream, {no, no, observe, no, no}},
      {Body::ActorEvent, {no, no, no, Role::proc, Role::proc}},
      {Body::GetSubscriberCount, {no, no, no, no, observe}},
      {Body::SubscriberCount, {no, no, no, no, no}},
      {Body::MeshHeartbeat, {no, no, no, no, no}},
      {Body::ControllerState, {no, no, no, no, no}},
      {Body::HandOver, {no, operate, no, no, operate}},
      {Body::OfferMesh, {no, no, no, no, operate}},
      {Body::OfferAccepted, {no, no, no, no, no}},
      {Body::GetStacks, {no, operate, no, no, no}},
      {Body::Stacks, {no, no, no, no, no}},
      {Body::StartExec, {no, operate, no, no, no}},
      {Body::ExecStarted, {no, no, no, no, no}},
      {Body::ExecInput, {no, operate, no, no, no}},
      {Body::ExecControl, {no, operate, no, no, no}},
      {Body::ExecOutput, {no, no, no, host, no}},
      {Body::ExecTaken, {no, operate, no, no, no}},
      {Body::ExecEnded, {no, no, no, host, no}},
      {Body::RestartProcs, {no, operate, no, no, no}},
      {Body::StartChaos, {operate, operate, no, no, no}},
      {Body::ChaosStarted, {no, no, no, no, no}},
      {Body::ResizeMesh, {no, operate, no, no, no}},
      {Body::WorldChanged, {no, no, host, no, no}},
      {Body::ClaimTerm, {no, operate, no, no, no}},
      {Body::TermState, {no, no, no, no, no}},
      {Body::UpgradeHost, {no, operate, no, no, no}},
      {Body::UpgradeStarted, {no, no, no, no, no}},
      {Body::OrderResize, {no, operate, no, host, operate}},
      {Body::MeshResized, {no, no, no, no, no}},
  };
  return rows;
}

/// A message that ends its receiver comes last.
bool is_last(Body body) {
  return body == Body::Bye || body == Body::ShutdownHost || body == Body::StopAndExit;
}

/// The messages as they are in the golden bytes.
std::map<Body, ControlMessage> messages() {
  std::map<Body, ControlMessage> all;
  for (const auto& golden : read_golden()) {
    auto control = ControlMessage::decode(golden.bytes);
    if (!control || golden.name != control->body_name()) continue;
    const auto type = (*control)->body_type();
    all.emplace(type, std::move(*control));
  }
  return all;
}

/// A launcher that sends what it likes and hears every answer.
class Prober {
 public:
  explicit Prober(const HostAddr& host) : id_(host, ProcName(must(Name::make("client")))) {
    Session::Options options;
    options.endpoint = host.zmq_endpoint();
    options.hello.peer = id_.to_string();
    options.hello.kind = wire::PeerKind::launcher;
    options.hello.incarnation = random_u64();
    Session::Events events;
    events.on_message = [this](const FrameReader::Message& message) {
      auto control = ControlMessage::decode(message.body);
      if (control && ((*control)->is_answer() || control->body_as<wire::Gone>() != nullptr))
        answers_.insert_or_assign((*control)->id(), std::move(*control));
    };
    session_.emplace(reactor_, std::move(options), std::move(events));
    REQUIRE(until([this] { return session_->is_up(); }));
  }

  /// What the proc of that key answers to the message; silence is an answer when something that was
  /// sent behind it is answered.
  std::optional<ControlMessage> ask(std::uint64_t proc, wire::BodyUnion body) {
    const auto id = send(proc, std::move(body));
    wire::BodyUnion unknown;
    unknown.Set(wire::AckT());
    const auto fence = send(proc, std::move(unknown));
    REQUIRE(until([&] { return answers_.contains(fence); }));
    const auto found = answers_.find(id);
    if (found == answers_.end()) return std::nullopt;
    auto answer = std::move(found->second);
    return answer;
  }
  /// The same for what ends the receiver: waits for the answer or the end of the session.
  std::optional<ControlMessage> ask_last(std::uint64_t proc, wire::BodyUnion body) {
    const auto id = send(proc, std::move(body));
    REQUIRE(until([&] { return answers_.contains(id) || !session_->is_up(); }));
    const auto found = answers_.find(id);
    if (found == answers_.end()) return std::nullopt;
    return std::move(found->second);
  }
  /// Whether this one is told of the other's end when that one says Bye.
  bool hears_bye_of(Prober& other) {
    wire::WatchT watch;
    watch.proc = other.id_.to_string();
    wire::BodyUnion question;
    question.Set(std::move(watch));
    const auto id = send(0, std::move(question));
    REQUIRE(until([&] { return answers_.contains(id); }));
    CHECK(answers_.at(id).body_as<wire::Ack>() != nullptr);
    other.send(0, other.body(Body::Bye));
    REQUIRE(other.until([&] { return other.session_->outbox().empty(); }));
    return until([&] { return answers_.at(id).body_as<wire::Gone>() != nullptr; });
  }
  wire::BodyUnion body(Body type) const {
    wire::ControlT native;
    messages_.at(type)->UnPackTo(&native);
    return std::move(native.body);
  }

 private:
  bool until(const std::function<bool()>& predicate) {
    const auto end = std::chrono::steady_clock::now() + in_time;
    while (!predicate()) {
      if (std::chrono::steady_clock::now() > end) return false;
      reactor_.turn(std::chrono::milliseconds(20));
    }
    return true;
  }
  std::uint64_t send(std::uint64_t proc, wire::BodyUnion body) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(proc);
    envelope.mutate_sequence(++last_);
    REQUIRE(session_->push(envelope, encode_union({.id = last_, .deadline_ms = 10'000}, body)));
    return last_;
  }

  ProcId id_;
  const std::map<Body, ControlMessage> messages_ = messages();
  Reactor reactor_;
  std::optional<Session> session_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, ControlMessage> answers_;
};

void check_answer(Body body, const Takes& takes, const std::optional<ControlMessage>& answer) {
  const std::string name = wire::EnumNameBody(body);
  const auto* refusal = answer ? answer->body_as<wire::Refusal>() : nullptr;
  const std::string detail = refusal == nullptr ? "" : text_of(refusal->detail());
  INFO("answer: " << (answer ? answer->body_name() : "none") << " " << detail);
  if (!takes) {
    REQUIRE(refusal != nullptr);
    CHECK(refusal->code() == wire::ErrorCode::no_such_port);
    CHECK(detail == "nothing here handles " + name);
  } else if (*takes > Role::operate) {
    REQUIRE(refusal != nullptr);
    CHECK(refusal->code() == wire::ErrorCode::unauthorised);
    CHECK(detail ==
          name + " needs role " + std::string(word_of(*takes)) + ", the sender has role operator");
  } else {
    CHECK(detail.find("nothing here handles") == std::string::npos);
    CHECK(detail.find(" needs role ") == std::string::npos);
  }
}

void check_role(Prober& prober, const std::string& role, std::uint64_t proc, Takes Row::* takes) {
  for (const auto& [body, row] : rows()) {
    if (is_last(body) && row.*takes && *(row.*takes) <= Role::operate) continue;
    INFO(wire::EnumNameBody(body) << " to the " << role);
    check_answer(body, row.*takes, prober.ask(proc, prober.body(body)));
  }
}

}  // namespace

TEST_CASE("version: every message is taken or refused in words by every role") {
  for (const auto body : wire::EnumValuesBody()) {
    if (body == Body::NONE) continue;
    INFO("rows(): say which roles take " << wire::EnumNameBody(body));
    CHECK(rows().contains(body));
    INFO("tests/golden has no " << wire::EnumNameBody(body) << ": schemas/released/README.md");
    REQUIRE(messages().contains(body));
  }
  StandingHost standing;
  const auto host = must(HostAddr::parse(standing.address()));
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {host}));
  auto mesh =
      must(hosts.spawn("served", extent("gpu=1"),
                       {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}}));
  Process controller({bin("meshbus-controller"), "--hosts", standing.address()});

  Prober prober(host);
  const auto agent = host_service(host).key();
  wire::GetStateT get;
  get.mesh = mesh.ref().mesh().to_string();
  wire::BodyUnion question;
  question.Set(std::move(get));
  const auto state = prober.ask(agent, std::move(question));
  REQUIRE(state.has_value());
  REQUIRE(state->body_as<wire::MeshState>() != nullptr);
  const auto client =
      must(ProcId::parse(state->body_as<wire::MeshState>()->owner()->string_view()));

  check_role(prober, "broker", 0, &Row::broker);
  check_role(prober, "agent", agent, &Row::agent);
  check_role(prober, "proc", must(mesh.ref().proc_at(0)).key(), &Row::proc);
  check_role(prober, "client", client.key(), &Row::client);
  check_role(prober, "controller", ProcId(host, ProcName(Name::controller())).key(),
             &Row::controller);
  // All of them are still there.
  must(mesh.stop());
  CHECK(controller.is_running());
  Prober leaver(host);
  CHECK(prober.hears_bye_of(leaver));
  check_answer(Body::StopAndExit, Role::operate,
               prober.ask_last(ProcId(host, ProcName(Name::controller())).key(),
                               prober.body(Body::StopAndExit)));
  CHECK(controller.wait_exit(in_time) == ExitStatus::exited(0));
  check_answer(Body::ShutdownHost, Role::operate,
               prober.ask_last(agent, prober.body(Body::ShutdownHost)));
  CHECK(standing.process().wait_exit(in_time) == ExitStatus::exited(0));
}
