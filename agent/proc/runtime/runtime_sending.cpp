#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "agent/proc/runtime/runtime.h"
#include "common/base/block_pool.h"
#include "wire/frame_generated.h"

// What goes out: calls, messages and casts of the program, from any of its threads.

namespace meshbus::mesh_proc {
namespace {

/// What a cast may bring: a message, less what says for whom it is (CastPlan::kMostRuns, and a region).
constexpr std::size_t kCastLimit = 960 * 1024;
constexpr std::size_t kCallLimit = kBodyLimit - sizeof(wire::CallHeader);

Error is_ending() {
  return {ErrorCode::fate_unknown, "this proc is ending"};
}

/// Fills a future exactly once: with the answer, or, when the bus is gone before there is one, with what that means.
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

std::future<Result<std::string>> failed(const Error& error) {
  std::promise<Result<std::string>> promise;
  promise.set_value(fail(error));
  return promise.get_future();
}

}  // namespace

Result<void> Runtime::check_caller(const ProcId& to) const {
  if (::getpid() != pid_)
    return fail(ErrorCode::refused, "this process is a child of fork(): it is not " + bootstrap_.proc.to_string() + "; use exec");
  if (is_reactor_thread_) return fail(ErrorCode::would_block, "the library's own thread cannot wait");
  if (actors_.is_here())
    return fail(ErrorCode::would_block, "an actor that waits keeps its thread from the others; use ActorContext::call_async");
  if (work_.is_here() && to == bootstrap_.proc)
    return fail(ErrorCode::would_block, "a handler that calls its own proc would wait for itself");
  return {};
}

std::future<Result<std::string>> Runtime::call(const ProcId& to, std::uint32_t port, std::string_view body,
                                               std::chrono::milliseconds deadline) {
  if (::getpid() != pid_) return failed(check_caller(to).error());
  if (body.size() > kCallLimit) {
    return failed(
        Error(ErrorCode::too_large, "a call of " + std::to_string(body.size()) + " bytes; the limit is " + std::to_string(kCallLimit)));
  }
  auto answer = std::make_shared<Answer>();
  auto future = answer->get_future();
  call(to, port, std::string(body), deadline,
       [answer = std::move(answer)](Result<std::string> result) { answer->fill(std::move(result)); });
  return future;
}

void Runtime::call(const ProcId& to, std::uint32_t port, std::string body, std::chrono::milliseconds deadline, Bus::CallAnswer answer) {
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0), std::chrono::milliseconds(UINT32_MAX));
  reactor_.post([this, to = Destination::to(to), port, body = std::move(body), limit, answer = std::move(answer)]() mutable {
    if (is_cut_) return answer(fail(is_ending()));
    bus_->call(to, port, body, limit, std::move(answer));
  });
}

Result<void> Runtime::make_room(Room size, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return waiting_.bytes + sent_.bytes + size.bytes <= kSendBytes && waiting_.copies + sent_.copies + size.copies <= Bus::kMostOutstanding;
  };
  if (!has_room() && (is_reactor_thread_ || !changed_.wait_for(lock, std::min(patience, kLongest), has_room))) {
    return fail(ErrorCode::queue_full, std::to_string(waiting_.bytes + sent_.bytes) + " bytes wait to leave; the limit is " +
                                           std::to_string(kSendBytes) + "; " + std::to_string(waiting_.copies + sent_.copies) +
                                           " messages are not known to be taken; the limit is " + std::to_string(Bus::kMostOutstanding));
  }
  waiting_.bytes += size.bytes;
  waiting_.copies += size.copies;
  return {};
}

void Runtime::queued(Room size) {
  const std::lock_guard lock(mutex_);
  waiting_.bytes -= size.bytes;
  waiting_.copies -= size.copies;
  sent_.bytes += size.bytes;
  sent_.copies += size.copies;
}

void Runtime::not_sent(const Destination& to, std::uint32_t port, const Error& error) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(to.proc);
  envelope.mutate_destination_host(to.host);
  envelope.mutate_port(port);
  envelope.mutate_kind(wire::Kind::message);
  on_undelivered(envelope, error);
}

template <typename MakeBody>
Result<void> Runtime::send_when_room(const ProcId& to, std::uint32_t port, std::string_view body, std::chrono::milliseconds patience,
                                     MakeBody make_body) {
  if (::getpid() != pid_) return fail(check_caller(to).error());
  if (body.size() > kBodyLimit) {
    return fail(ErrorCode::too_large, "a message of " + std::to_string(body.size()) + " bytes; the limit is " + std::to_string(kBodyLimit));
  }
  const Room size{body.size() + sizeof(wire::Envelope), 1};
  if (auto room = make_room(size, patience); !room) return room;
  reactor_.post([this, to = Destination::to(to), port, body = make_body(), size] {
    if (is_cut_) return queued(size);
    const auto sent = bus_->send(to, port, body);
    queued(size);
    if (!sent) not_sent(to, port, sent.error());
  });
  return {};
}

Result<void> Runtime::send(const ProcId& to, std::uint32_t port, std::string_view body, std::chrono::milliseconds patience) {
  if (body.size() > kInlineLimit) return send_when_room(to, port, body, patience, [&] { return BlockPool::copy(body); });
  return send_when_room(to, port, body, patience, [&] { return std::string(body); });
}

Result<void> Runtime::send(const ProcId& to, std::uint32_t port, const SharedBody& body, std::chrono::milliseconds patience) {
  if (body.bytes().size() <= kInlineLimit) return send(to, port, body.bytes(), patience);
  return send_when_room(to, port, body.bytes(), patience, [&] { return body; });
}

Result<std::shared_ptr<const CastPlan>> Runtime::plan_cast(const ProcMeshRef& to, std::size_t bytes) {
  if (::getpid() != pid_) return fail(check_caller(bootstrap_.proc).error());
  if (bytes > kCastLimit) {
    return fail(ErrorCode::too_large, "a cast of " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(kCastLimit));
  }
  const std::lock_guard lock(plans_mutex_);
  return plans_.get(to);
}

Result<void> Runtime::cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body, std::chrono::milliseconds patience) {
  auto plan = plan_cast(to, body.size());
  if (!plan) return fail(plan.error());
  const Room size{body.size() + sizeof(wire::Envelope), (*plan)->targets.size()};
  if (auto room = make_room(size, patience); !room) return room;
  reactor_.post([this, plan = std::move(*plan), port, body = std::string(body), size] {
    if (is_cut_) return queued(size);
    const auto sent = bus_->cast(*plan, port, body);
    queued(size);
    if (sent) return;
    for (const auto& target : plan->targets) not_sent({target.proc, target.host, {}}, port, sent.error());
  });
  return {};
}

Result<CastAnswers::Answers> Runtime::call_all(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                               std::chrono::milliseconds deadline) {
  auto plan = plan_cast(to, body.size());
  if (!plan) return fail(plan.error());
  if ((*plan)->targets.empty()) return CastAnswers::Answers();
  const bool has_us = (*plan)->ordinal_of_proc.contains(bootstrap_.proc.key());
  if (auto allowed = check_caller(has_us ? bootstrap_.proc : (*plan)->view.proc_at(0).value()); !allowed) return fail(allowed.error());
  auto answers = std::make_shared<CastAnswers>((*plan)->targets.size());
  auto future = answers->get_future();
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0), std::chrono::milliseconds(UINT32_MAX));
  reactor_.post([this, plan = std::move(*plan), port, body = std::string(body), limit, answers = std::move(answers)] {
    if (is_cut_) {
      for (std::uint64_t ordinal = 0; ordinal < plan->targets.size(); ++ordinal) answers->fill(ordinal, fail(is_ending()));
      return;
    }
    bus_->cast_call(plan, port, body, limit,
                    [answers](std::uint64_t ordinal, Result<std::string> answer) { answers->fill(ordinal, std::move(answer)); });
  });
  return future.get();
}

void Runtime::report_room() {
  const Room now{bus_->queued_bytes(), bus_->traffic().outstanding};
  const std::lock_guard lock(mutex_);
  if (now.bytes < sent_.bytes || now.copies < sent_.copies) changed_.notify_all();
  sent_ = now;
}

}  // namespace meshbus::mesh_proc
