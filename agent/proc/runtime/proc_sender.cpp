#include "agent/proc/runtime/proc_sender.h"

#include <algorithm>
#include <utility>

#include "agent/proc/runtime/known_procs.h"
#include "common/base/block_pool.h"
#include "wire/frame_generated.h"

namespace meshbus::mesh_proc {
namespace {

Error is_ending() {
  return {ErrorCode::fate_unknown, "this proc is ending"};
}

/// Fills a future exactly once: with the answer, or with fate_unknown when the bus is gone before
/// there is one.
class Answer {
 public:
  ~Answer() {
    if (!filled_) promise_.set_value(fail(is_ending()));
  }
  std::future<Result<std::string>> get_future() { return promise_.get_future(); }
  void fill(Result<std::string> answer) {
    filled_ = true;
    promise_.set_value(std::move(answer));
  }

 private:
  std::promise<Result<std::string>> promise_;
  bool filled_ = false;
};

/// The keys that this thread knows, for the sender of that number: a thread mostly sends from one
/// proc.
KnownProcs& known_procs(std::uint64_t runtime) {
  thread_local std::pair<std::uint64_t, KnownProcs> known{0, KnownProcs()};
  if (known.first != runtime) known = {runtime, KnownProcs()};
  return known.second;
}

std::future<Result<std::string>> failed(const Error& error) {
  std::promise<Result<std::string>> promise;
  promise.set_value(fail(error));
  return promise.get_future();
}

}  // namespace

ProcSender::ProcSender(Reactor& reactor, const Bootstrap& bootstrap, const World& world,
                       const std::atomic<bool>& is_cut, CheckCaller check_caller)
    : bootstrap_(bootstrap),
      world_(world),
      is_cut_(is_cut),
      check_caller_(std::move(check_caller)),
      outgoing_(reactor, kSendMost) {}

Result<void> ProcSender::check_fork() const {
  if (!is_forked()) return {};
  return fail(ErrorCode::refused, "this process is a child of fork(): it is not " +
                                      bootstrap_.proc.to_string() + "; use exec");
}

std::future<Result<std::string>> ProcSender::call(const ProcId& to, std::uint32_t port,
                                                  const BodyParts& body,
                                                  std::chrono::milliseconds deadline) {
  if (is_forked()) return failed(check_fork().error());
  auto answer = std::make_shared<Answer>();
  auto future = answer->get_future();
  call(to, port, body, deadline, [answer = std::move(answer)](Result<std::string> result) {
    answer->fill(std::move(result));
  });
  return future;
}

ProcSender::AwaitedAnswer ProcSender::call_for(const ProcId& to, std::uint32_t port,
                                               const BodyParts& body,
                                               std::chrono::milliseconds deadline) {
  using Waiting = Awaited<Result<std::string>>;
  auto waiting = std::make_shared<Waiting>();
  auto bringer = std::make_shared<Waiting::Bringer>(
      waiting, []() -> Result<std::string> { return fail(is_ending()); });
  if (is_forked()) {
    bringer->bring(fail(check_fork().error()));
    return waiting;
  }
  call(
      to, port, body, deadline,
      [bringer = std::move(bringer)](Result<std::string> result) {
        bringer->bring(std::move(result));
      },
      /*is_last=*/true);
  return waiting;
}

void ProcSender::call(const ProcId& to, std::uint32_t port, const BodyParts& body,
                      std::chrono::milliseconds deadline, Bus::CallAnswer answer, bool is_last) {
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0),
                                                           std::chrono::milliseconds(UINT32_MAX));
  const bool is_here = to.host() == bootstrap_.proc.host();
  const auto how = how_to_hold(body, is_here);
  if (!how) return answer(fail(how.error()));
  const HeldBody held(body, *how);
  // Our own host needs no introduction.
  const Destination destination = is_here ? known_procs(number_).proc(to) : Destination::to(to);
  const auto done = outgoing_.use(
      [&](Bus& bus) -> Result<void> {
        if (is_cut_) return fail(is_ending());
        bus.call(destination, port, held, limit, answer);
        return {};
      },
      is_last);
  if (!done) answer(fail(done.error()));
}

Result<void> ProcSender::check_size(std::size_t bytes) {
  return outgoing_.use([&](Bus& bus) { return bus.check_size(bytes); });
}

Result<std::optional<bool>> ProcSender::how_to_hold(const BodyParts& body, bool is_here) {
  if (body.size() <= kCallLimit) return std::optional<bool>();
  // Before it is copied, which may take more memory than there is.
  if (auto fits = check_size(body.size()); !fits) return fail(fits.error());
  return is_here;
}

Result<void> ProcSender::send_large(const ProcId& to, std::uint32_t port, const BodyParts& body,
                                    std::chrono::milliseconds patience) {
  if (auto allowed = check_caller_(to); !allowed) return allowed;
  // Before it is copied, which may take more memory than there is.
  if (auto fits = check_size(body.size()); !fits) return fits;
  // Not in the visit: others would wait for the copy.
  auto whole = body.hold(to.host() == bootstrap_.proc.host());
  return wait_for_arrival(body.size(), patience, [&](Bus& bus, Arrival& arrival) {
    bus.send_large(Destination::to(to), port, std::move(whole), arrival);
  });
}

template <typename Begin>
Result<void> ProcSender::wait_for_arrival(std::size_t bytes, std::chrono::milliseconds patience,
                                          Begin begin) {
  Arrival arrival;
  const auto begun = outgoing_.use([&](Bus& bus) -> Result<void> {
    if (is_cut_) return fail(is_ending());
    begin(bus, arrival);
    return {};
  });
  if (!begun) return begun;
  outgoing_.flush_now();
  return arrival.wait(bytes, patience);
}

ProcId ProcSender::owner_of(const CastPlan& plan) const {
  const bool has_us = plan.ordinal_of_proc.contains(bootstrap_.proc.key());
  return has_us || plan.targets.empty() ? bootstrap_.proc : plan.view.proc_at(0).value();
}

Result<void> ProcSender::send(const ProcId& to, std::uint32_t port, const BodyParts& body,
                              std::chrono::milliseconds patience) {
  if (is_forked()) return check_fork();
  if (is_cut_) return {};
  if (body.size() > kBodyLimit) return send_large(to, port, body, patience);
  std::string text;
  return outgoing_.send(
      known_procs(number_).proc(to), [&] { return Destination::to(to); }, port, body.whole(text),
      body.shared(), patience);
}

Result<void> ProcSender::send(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                              std::chrono::milliseconds patience) {
  if (is_forked()) return check_fork();
  const auto& mesh = world_.mesh();
  const auto to = known_procs(number_).rank(mesh, rank);
  if (!to) return fail(to.error());
  if (is_cut_) return {};
  if (body.size() > kBodyLimit) return send_large(*mesh.proc_at(rank), port, body, patience);
  std::string text;
  return outgoing_.send(
      **to, [&] { return Destination::to(*mesh.proc_at(rank)); }, port, body.whole(text),
      body.shared(), patience);
}

Result<std::shared_ptr<const CastPlan>> ProcSender::plan_cast(const ProcMeshRef& to) {
  if (is_forked()) return fail(check_fork().error());
  const std::lock_guard lock(plans_mutex_);
  return plans_.get(to);
}

Result<void> ProcSender::cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                              std::chrono::milliseconds patience) {
  auto plan = plan_cast(to);
  if (!plan) return fail(plan.error());
  if (is_cut_) return {};
  if (body.size() > (*plan)->body_limit) {
    if (auto allowed = check_caller_(owner_of(**plan)); !allowed) return allowed;
    if (auto fits = check_size(body.size()); !fits) return fits;
    auto whole = body.hold(/*is_sealed=*/true);
    return wait_for_arrival(body.size(), patience, [&](Bus& bus, Arrival& arrival) {
      bus.cast_large(*plan, port, std::move(whole), arrival);
    });
  }
  std::string text;
  const auto bytes = body.whole(text);
  return outgoing_.use_when_room({bytes.size() + sizeof(wire::Envelope), (*plan)->targets.size()},
                                 patience, [&](Bus& bus) -> Result<void> {
                                   if (is_cut_) return {};
                                   return bus.cast(**plan, port, bytes);
                                 });
}

Result<std::future<CastAnswers::Answers>> ProcSender::call_all(const ProcMeshRef& to,
                                                               std::uint32_t port,
                                                               const BodyParts& body,
                                                               std::chrono::milliseconds deadline) {
  auto plan = plan_cast(to);
  if (!plan) return fail(plan.error());
  if ((*plan)->targets.empty()) {
    std::promise<CastAnswers::Answers> none;
    none.set_value({});
    return none.get_future();
  }
  if (auto allowed = check_caller_(owner_of(**plan)); !allowed) return fail(allowed.error());
  const auto how = how_to_hold(body, /*is_here=*/true);
  if (!how) return fail(how.error());
  const HeldBody held(body, *how);
  auto answers = std::make_shared<CastAnswers>((*plan)->targets.size());
  auto future = answers->get_future();
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0),
                                                           std::chrono::milliseconds(UINT32_MAX));
  const auto asked = outgoing_.use(
      [&](Bus& bus) -> Result<void> {
        if (is_cut_) return fail(is_ending());
        bus.cast_call(*plan, port, held, limit,
                      [answers](std::uint64_t ordinal, Result<std::string> answer) {
                        answers->fill(ordinal, std::move(answer));
                      });
        return {};
      },
      /*is_last=*/true);
  if (!asked) {
    for (std::uint64_t ordinal = 0; ordinal < (*plan)->targets.size(); ++ordinal)
      answers->fill(ordinal, fail(asked.error()));
  }
  return future;
}

}  // namespace meshbus::mesh_proc
