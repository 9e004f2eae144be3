#include "client/src/context/calls.h"

#include <algorithm>
#include <future>
#include <utility>

#include "client/src/context/async_call.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/update_router.h"
#include "common/loop/awaited.h"

namespace meshbus {
namespace {

/// Bus counts deadlines in 32 bits of milliseconds.
constexpr std::chrono::milliseconds kLongestWait{std::chrono::hours(24 * 20)};

std::string call_to(const ProcId& proc, std::uint32_t port) {
  return "call to " + proc.to_string() + ", port " + std::to_string(port);
}

std::string call_to(const ProcMeshRef& view, std::uint32_t port) {
  return "call to " + view.mesh().to_string() + ", port " + std::to_string(port);
}

}  // namespace

std::chrono::milliseconds Calls::clamp(std::chrono::milliseconds deadline) {
  return std::clamp(deadline, std::chrono::milliseconds(1), kLongestWait);
}

Result<std::optional<bool>> Calls::how_to_hold(const BodyParts& body, const HostAddr& host) {
  if (body.size() <= kCallLimit) return std::optional<bool>();
  return core_.visit([&]() -> Result<std::optional<bool>> {
    const auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    // Before it is copied, which may take more memory than there is.
    if (auto fits = bus->check_size(body.size()); !fits) return fail(fits.error());
    return bus->self() && bus->self()->host() == host;
  });
}

Error Calls::explain(const ProcName& proc, const Error& error) const {
  return updates_.explain(proc, gateway_.status().explain(error));
}

Error Calls::explain(const ProcMeshRef& view, std::uint64_t ordinal, const Error& error) const {
  const auto proc = view.proc_at(ordinal);
  return proc ? explain(proc->name(), error) : error;
}

Result<std::uint64_t> Calls::begin_call(const ProcId& proc, const Destination& to,
                                        std::uint32_t port, const HeldBody& body,
                                        std::chrono::milliseconds deadline,
                                        Bus::CallAnswer answer) {
  auto* const bus = gateway_.bus();
  if (bus == nullptr) return fail(gateway_.closed_error());
  if (auto loss = hosts_.loss_of(proc.host())) return fail(std::move(*loss));
  if (auto refusal = updates_.refusal_of(proc.name())) return fail(std::move(*refusal));
  const auto id =
      bus->call(to, port, body, clamp(deadline),
                [this, name = proc.name(), answer = std::move(answer)](Result<std::string> result) {
                  if (!result) result = fail(explain(name, result.error()));
                  answer(std::move(result));
                });
  core_.sender().see_off(*bus, /*is_urgent=*/true);
  return id;
}

Result<std::string> Calls::call(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                                std::chrono::milliseconds deadline) {
  using Waiting = Awaited<Result<std::string>>;
  const auto waiting = std::make_shared<Waiting>();
  auto bringer = std::make_shared<Waiting::Bringer>(waiting, []() -> Result<std::string> {
    return fail(ErrorCode::fate_unknown, "this Context is closed");
  });
  const auto to = Destination::to(proc);
  const auto how = how_to_hold(body, proc.host());
  if (!how) return fail(how.error().within(call_to(proc, port)));
  const HeldBody held(body, *how);
  const auto begun = core_.visit([&, bringer = std::move(bringer)]() mutable {
    return begin_call(proc, to, port, held, deadline,
                      [bringer = std::move(bringer)](Result<std::string> answer) {
                        bringer->bring(std::move(answer));
                      });
  });
  if (!begun) return fail(begun.error().within(call_to(proc, port)));
  core_.wait_until([&waiting] { return waiting->is_here(); });
  auto answer = waiting->take();
  if (!answer) return fail(answer.error().within(call_to(proc, port)));
  return answer;
}

void Calls::call_async(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                       std::chrono::milliseconds deadline, const std::shared_ptr<AsyncCall>& call) {
  const auto to = Destination::to(proc);
  const auto fill = [call, proc, port](Result<std::string> answer) {
    if (!answer) answer = fail(answer.error().within(call_to(proc, port)));
    call->fill(0, std::move(answer));
  };
  const auto how = how_to_hold(body, proc.host());
  if (!how) return fill(fail(how.error()));
  const HeldBody held(body, *how);
  core_.visit([&] {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fill(fail(gateway_.closed_error()));
    call->begin(*bus, [&]() -> std::uint64_t {
      const auto id = begin_call(proc, to, port, held, deadline, fill);
      if (!id) fill(fail(id.error()));
      return id.value_or(0);
    });
  });
}

Result<void> Calls::cast_large(const std::shared_ptr<const CastPlan>& to, std::uint32_t port,
                               const BodyParts& body) {
  if (core_.reactor().is_in_turn())
    return fail(ErrorCode::would_block,
                "a body above " + std::to_string(to->body_limit) +
                    " bytes goes before its message, and the library's own thread cannot wait");
  // Before it is copied, which may take more memory than there is.
  const auto fits = core_.visit([&]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    return bus->check_size(body.size());
  });
  if (!fits) return fits;
  Arrival arrival;
  auto whole = body.hold(/*is_sealed=*/true);
  const auto begun = core_.visit([&]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    bus->cast_large(to, port, std::move(whole), arrival);
    core_.sender().see_off(*bus, /*is_urgent=*/true);
    return {};
  });
  return begun ? arrival.wait(body.size(), std::chrono::milliseconds::max()) : begun;
}

Result<void> Calls::cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body) {
  std::shared_ptr<const CastPlan> for_large;
  std::string text;
  const auto bytes = body.size() <= kBodyLimit ? body.whole(text) : Bytes();
  auto sent = core_.visit([&]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    const auto plan = plans_.get(to);
    if (!plan) return fail(plan.error());
    if (body.size() > (*plan)->body_limit) {
      for_large = *plan;
      return {};
    }
    auto cast = bus->cast(**plan, port, bytes);
    core_.sender().see_off(*bus, /*is_urgent=*/!cast);
    return cast;
  });
  if (for_large != nullptr) sent = cast_large(for_large, port, body);
  if (!sent)
    return fail(
        sent.error().within("cast to " + to.mesh().to_string() + ", port " + std::to_string(port)));
  return sent;
}

Result<Calls::Prepared> Calls::prepare(const ProcMeshRef& to) {
  if (gateway_.bus() == nullptr) return fail(gateway_.closed_error());
  auto plan = plans_.get(to);
  if (!plan) return fail(plan.error());
  Prepared prepared{std::move(*plan), {}};
  const auto is_lost = [this](const HostAddr& host) { return hosts_.loss_of(host).has_value(); };
  const auto refusal = updates_.refusal_of(to.mesh());
  if (!refusal && !updates_.has_losses() &&
      std::none_of(to.hosts().begin(), to.hosts().end(), is_lost))
    return prepared;
  for (std::uint64_t ordinal = 0; ordinal < to.num_ranks(); ++ordinal) {
    const auto proc = to.proc_at(ordinal);
    auto loss = proc ? hosts_.loss_of(proc->host()) : std::nullopt;
    if (!loss) loss = refusal || !proc ? refusal : updates_.refusal_of(proc->name());
    if (loss) prepared.losses.emplace(ordinal, std::move(*loss));
  }
  return prepared;
}

std::uint64_t Calls::begin_call_all(const Prepared& prepared, std::uint32_t port,
                                    const HeldBody& body, std::chrono::milliseconds deadline,
                                    Bus::CastAnswer answer) {
  auto* const bus = gateway_.bus();
  for (const auto& [ordinal, loss] : prepared.losses) answer(ordinal, fail(loss));
  if (prepared.losses.size() == prepared.plan->targets.size()) return 0;
  const auto id = bus->cast_call(
      prepared.plan, port, body, clamp(deadline),
      [this, losses = prepared.losses, plan = prepared.plan, answer = std::move(answer)](
          std::uint64_t ordinal, Result<std::string> result) {
        if (losses.contains(ordinal)) return;
        if (!result) result = fail(explain(plan->view, ordinal, result.error()));
        answer(ordinal, std::move(result));
      });
  core_.sender().see_off(*bus, /*is_urgent=*/true);
  return id;
}

Result<CastAnswers::Answers> Calls::call_all(const ProcMeshRef& to, std::uint32_t port,
                                             const BodyParts& body,
                                             std::chrono::milliseconds deadline) {
  auto answers = std::make_shared<CastAnswers>(to.num_ranks());
  auto future = answers->get_future();
  const auto how = how_to_hold(body, to.hosts().front());
  if (!how) return fail(how.error().within(call_to(to, port)));
  // As for a cast, which may go to procs of this host and of others.
  const HeldBody held(body, how->has_value() ? std::optional(true) : std::nullopt);
  const auto asked = core_.visit([&]() -> Result<void> {
    const auto prepared = prepare(to);
    if (!prepared) return fail(prepared.error());
    begin_call_all(*prepared, port, held, deadline,
                   [answers](std::uint64_t ordinal, Result<std::string> answer) {
                     answers->fill(ordinal, std::move(answer));
                   });
    return {};
  });
  if (!asked) return fail(asked.error().within(call_to(to, port)));
  answers.reset();
  core_.wait_until(
      [&future] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  return future.get();
}

void Calls::call_all_async(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                           std::chrono::milliseconds deadline,
                           const std::shared_ptr<AsyncCall>& call) {
  const auto how = how_to_hold(body, to.hosts().front());
  if (!how) return call->fail_all(how.error().within(call_to(to, port)));
  const HeldBody held(body, how->has_value() ? std::optional(true) : std::nullopt);
  core_.visit([&] {
    const auto prepared = prepare(to);
    if (!prepared) return call->fail_all(prepared.error().within(call_to(to, port)));
    call->begin(*gateway_.bus(), [&] {
      return begin_call_all(*prepared, port, held, deadline,
                            [call](std::uint64_t ordinal, Result<std::string> answer) {
                              call->fill(ordinal, std::move(answer));
                            });
    });
  });
}

}  // namespace meshbus
