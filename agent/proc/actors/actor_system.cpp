#include "agent/proc/actors/actor_system.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/address/actor_words.h"
#include "common/base/log.h"
#include "common/bus/held_body.h"
#include "common/wire/actor_body.h"
#include "common/wire/collecting.h"
#include "wire/frame_generated.h"
#include "wire/replies_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// How long the children of an actor that has failed may take.
constexpr std::chrono::seconds kOrphanGrace{10};
/// What is left to do at the end of a grace may take so long: the handler that runs, and on_stop().
constexpr std::chrono::milliseconds kCloseLimit{500};
/// An actor that is not stuck itself, but waits for children or for a thread, gets the above so
/// often.
constexpr unsigned kMostRounds = 10;
/// How often to look whether actors wait for a thread.
constexpr std::chrono::seconds kPoolInterval{1};

/// In CallHeader.reserved of what lies in mailboxes: the answer goes to the agent of this host, and
/// `id` is its ticket.
constexpr std::uint16_t kIsCollected = 1;

std::string name_of(const ActorCell& cell) {
  return cell.id.name().to_string() + "[" + std::to_string(cell.id.pid()) + "]";
}

}  // namespace

ActorSystem::ActorSystem(Reactor& reactor, Proc& proc, ProcId self, const Types& types,
                         unsigned threads, Outside outside)
    : reactor_(reactor),
      proc_(proc),
      self_(std::move(self)),
      types_(types),
      outside_(std::move(outside)),
      runner_(
          [this](const std::string& type, ActorContext& context, const std::string& params) {
            return types_.find(type)->second.factory(context, params);
          },
          [this](const wire::Envelope& call, const wire::CallHeader& header,
                 Result<std::string> result) { answer(call, header, std::move(result)); }),
      requests_(*this, self_),
      pool_({.threads = threads}) {}

ActorSystem::~ActorSystem() {
  finish_threads();
  // Actors, and what they wait for, may hold replies, which come back here when they go.
  auto cells = table_.take_all();
  auto later = std::exchange(later_, {});
  changed_.clear();
  later.clear();
  cells.clear();
}

void ActorSystem::start_threads() {
  if (!types_.empty()) pool_.start();
}

bool ActorSystem::finish_threads() {
  return pool_.finish(std::chrono::milliseconds(100)) == 0;
}

void ActorSystem::attach(Bus& bus) {
  bus_ = &bus;
  requests_.attach(&bus);
  turn_end_ = reactor_.add_turn_end([this] { on_turn_end(); });
}

void ActorSystem::detach() {
  bus_ = nullptr;
  requests_.attach(nullptr);
  reactor_.forget_turn_end(turn_end_);
  const Lock lock(mutex_);
  for (const auto& [key, cell] : table_.all()) {
    reactor_.cancel(cell->stop_timer);
    for (const auto& [number, timer] : cell->timers) reactor_.cancel(timer);
  }
}

void ActorSystem::on_turn_end() {
  if (!batch_.empty()) pool_.submit(std::exchange(batch_, {}));
  if (pool_timer_ == 0 && pool_.is_starved())
    pool_timer_ = reactor_.after(kPoolInterval, [this] { check_pool(); });
}

void ActorSystem::check_pool() {
  pool_timer_ = 0;
  pool_.relieve(Clock::now());  // on_turn_end() looks again
}

std::optional<BusyHandler> ActorSystem::find_busy(Time now, Clock::duration limit) {
  const Lock lock(mutex_);
  const auto longest = std::min_element(
      busy_.begin(), busy_.end(),
      [](const auto* a, const auto* b) { return a->busy->second < b->busy->second; });
  if (longest == busy_.end() || now - (*longest)->busy->second < limit) return std::nullopt;
  const ActorCell& cell = **longest;
  const auto& step = cell.busy->first;
  return BusyHandler{
      .name = "actor " + cell.id.name().to_string() + (step.empty() ? "" : ", " + step),
      .busy = now - cell.busy->second,
      .waiting = cell.mailbox.count() + cell.tasks.size()};
}

void ActorSystem::later(std::function<void()> task) {
  later_.push_back(std::move(task));
  if (later_.size() > 1) return;
  if (!pool_.is_here()) return reactor_.post([this] { run_later(); });
  is_unheard_ = true;
  reactor_.post_quietly([this] { run_later(); });
}

void ActorSystem::run_later() {
  std::vector<std::function<void()>> tasks;
  {
    const Lock lock(mutex_);
    tasks.swap(later_);
    is_unheard_ = false;
  }
  for (const auto& task : tasks) task();
}

// --- Messages. ---

ActorSystem::Delivery ActorSystem::on_data(const wire::Envelope& from, const wire::CallHeader& call,
                                           Bytes body, const std::optional<Point>& point,
                                           const std::shared_ptr<const void>& owner) {
  if (!is_actor_port(from.port())) return Delivery::not_mine;
  wire::Envelope envelope = from;
  wire::CallHeader header = call;
  header.mutate_reserved(0);
  // Without types there are no actors.
  if (types_.empty() && body.size() < sizeof(wire::ActorHeader)) return Delivery::not_mine;
  auto decoded = decode_actor_body(body);
  const bool is_collected =
      decoded && decoded->message == kCollectMessage && envelope.kind() == wire::Kind::message;
  if (types_.empty() && !is_collected) return Delivery::not_mine;
  if (is_collected) {
    const auto collected = decode_collected_call(decoded->bytes);
    if (!collected) {
      log::warn("a message is dropped: " + collected.error().to_string());
      return Delivery::returned;
    }
    envelope.mutate_kind(wire::Kind::call);
    header = wire::CallHeader(collected->ticket, collected->limit_ms, wire::ErrorCode::none,
                              kIsCollected);
    decoded = decode_actor_body(collected->actor_body);
  }
  std::optional<Error> error;
  {
    const Lock lock(mutex_);
    const auto cell = table_.find_port(envelope.port());
    if (cell == nullptr) {
      if (!is_collected) return Delivery::not_mine;
      error.emplace(ErrorCode::no_such_port, self_.to_string() + no_actor_words(envelope.port()));
    } else if (const auto refusal = put(*cell, envelope, header, decoded, point, owner)) {
      error = refusal;
    } else {
      return Delivery::taken;
    }
  }
  tell(envelope, header, fail(*error));
  return Delivery::returned;
}

std::optional<Error> ActorSystem::put(ActorCell& cell, const wire::Envelope& envelope,
                                      const wire::CallHeader& header, const Result<ActorBody>& body,
                                      const std::optional<Point>& point,
                                      const std::shared_ptr<const void>& owner) {
  if (!body) return body.error().within(cell.id.to_string());
  if (!cell.life.is_open())
    return Error(ErrorCode::no_such_port, "actor " + cell.id.to_string() + " " + cell.life.words());
  if (cell.messages && !cell.messages->contains(body->message))
    return ActorRunner::no_handler(cell.id, body->message, *cell.messages);
  Letter letter{
      .message = body->message, .from = body->from, .envelope = envelope, .header = header};
  if (letter.is_call() && header.deadline_ms() > 0)
    letter.deadline = reactor_.now() + std::chrono::milliseconds(header.deadline_ms());
  // A large body is a share of its own; a frame has others' messages too, and is let go.
  if (owner != nullptr && body->bytes.size() > kBodyLimit) {
    letter.kept_body = body->bytes;
    letter.owner = owner;
  } else {
    letter.body.assign(body->bytes);
  }
  letter.point = point;
  if (!cell.mailbox.push(std::move(letter))) {
    return Error(ErrorCode::queue_full, "actor " + cell.id.to_string() +
                                            " is behind: " + std::to_string(cell.mailbox.count()) +
                                            " messages, " + std::to_string(cell.mailbox.bytes()) +
                                            " bytes wait for it");
  }
  schedule(cell);
  return std::nullopt;
}

void ActorSystem::tell(const wire::Envelope& envelope, const wire::CallHeader& header,
                       const Result<std::string>& answer) {
  if (bus_ == nullptr) return;
  if (header.reserved() == kIsCollected) {
    const auto sent = bus_->send(Destination::to_agent(self_.host()),
                                 static_cast<std::uint32_t>(wire::CollectPort::answer),
                                 encode_collected_answer(header.id(), answer), true);
    if (!sent) log::warn("an answer is dropped: " + sent.error().to_string());
  } else if (envelope.kind() != wire::Kind::call) {
    bus_->give_back(envelope, answer.error());
  } else if (answer) {
    bus_->answer_call(envelope, header, *answer);
  } else {
    bus_->fail_call(envelope, header, answer.error());
  }
}

void ActorSystem::answer(const wire::Envelope& call, const wire::CallHeader& header,
                         Result<std::string> answer) {
  const auto large = hold_large(call, header, answer);
  // At once: a message that the actor sends next must not arrive before its answer.
  outside_.visit([&] {
    if (large && bus_ != nullptr) return bus_->answer_call(call, header, *large);
    tell(call, header, answer);
  });
}

std::optional<SharedBody> ActorSystem::hold_large(const wire::Envelope& call,
                                                  const wire::CallHeader& header,
                                                  Result<std::string>& answer) const {
  const bool is_sent_alone = call.kind() == wire::Kind::call && header.reserved() != kIsCollected &&
                             answer && answer->size() > kBodyLimit;
  if (!is_sent_alone) return std::nullopt;
  Result<void> fits;
  outside_.visit([&] {
    if (bus_ != nullptr) fits = bus_->check_size(answer->size());
  });
  if (!fits) {
    answer = fail(fits.error().within("the answer"));
    return std::nullopt;
  }
  return hold_answer(std::move(*answer), call.source_host() == self_.host().key());
}

// --- Life: with the lock held. ---

Result<std::shared_ptr<ActorCell>> ActorSystem::make(const std::string& type, const Name& name,
                                                     std::uint64_t pid, std::string params) {
  const auto found = types_.find(type);
  if (found == types_.end()) {
    std::string known;
    for (const auto& [other, row] : types_) known += (known.empty() ? "" : ", ") + other;
    return fail(ErrorCode::actor_type_not_registered,
                self_.to_string() + ": its program has no actor type \"" + cut_text(type, 63) +
                    "\"; it has " + (known.empty() ? "none" : known));
  }
  ActorId id(self_, name, pid);
  if (is_ending_)
    return fail(ErrorCode::actor_spawn_error, id.to_string() + ": its proc is ending");
  const auto port = actor_port(id);
  const auto other = table_.find_port(port);
  if (outside_.has_handler(port) || (other != nullptr && !other->life.is_ended())) {
    return fail(ErrorCode::actor_spawn_error,
                id.to_string() + ": its port " + std::to_string(port) + " is that of " +
                    (other == nullptr ? "a handler of the program" : other->id.to_string()) +
                    "; take another name");
  }
  const ActorOptions& options = found->second.options;
  auto cell = std::make_shared<ActorCell>(
      *this, std::move(id), type, Mailbox::Limits{options.mailbox_count, options.mailbox_bytes});
  cell->params = std::move(params);
  cell->port = port;
  table_.add(cell);
  schedule(*cell);
  changed(*cell);
  return cell;
}

void ActorSystem::schedule(ActorCell& cell) {
  if (std::exchange(cell.is_scheduled, true)) return;
  // The batch is for turns, which submit it at their end; other threads have neither.
  if (pool_.is_here() || !reactor_.is_in_turn()) {
    pool_.submit(cell.shared_from_this());
  } else {
    batch_.push_back(cell.shared_from_this());
  }
}

void ActorSystem::changed(ActorCell& cell) {
  if (std::exchange(cell.is_changed, true)) return;
  changed_.push_back(cell.shared_from_this());
  if (changed_.size() == 1) later([this] { requests_.tell_changes(); });
}

void ActorSystem::begin_stop(ActorCell& cell, const std::string& reason, Time end) {
  if (cell.life.is_ended() || (cell.stop_end && *cell.stop_end <= end)) return;
  if (cell.life.on_stopping(reason, std::chrono::system_clock::now())) changed(cell);
  cell.stop_end = end;
  begin_stop_of_children(cell, "its parent " + name_of(cell) + " stops: " + reason, end);
  schedule(cell);
  later([this, self = cell.shared_from_this(), end] { arm_stop(self, end); });
}

void ActorSystem::begin_stop_of_children(ActorCell& cell, const std::string& reason, Time end) {
  for (const auto& child : cell.children) begin_stop(*child, cut_text(reason, 1024), end);
}

void ActorSystem::arm_stop(const std::shared_ptr<ActorCell>& cell, Time end) {
  reactor_.cancel(cell->stop_timer);
  cell->stop_timer = reactor_.at(end, [this, cell] { on_stop_over(cell); });
}

void ActorSystem::on_stop_over(const std::shared_ptr<ActorCell>& cell) {
  cell->stop_timer = 0;
  const Lock lock(mutex_);
  if (cell->life.is_ended()) return;
  // First what waits is dropped, and what runs may end. An actor that is still at the same thing
  // then is stuck.
  const auto now = Clock::now();
  if (!std::exchange(cell->is_closing, true)) {
    drop_mail(*cell);
    schedule(*cell);
  } else if (cell->busy && now - cell->busy->second >= kCloseLimit) {
    const auto [what, since] = *cell->busy;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - since).count();
    return end_failed(
        *cell, {"stuck for " + std::to_string(ms) + " ms, past the end of the grace of its stop (" +
                    cell->life.reason() + "); a thread cannot be ended, so this one is left to it",
                what,
                {}});
  } else if (++cell->stop_rounds > kMostRounds) {
    return end_failed(*cell,
                      {"it did not come to stop: " + std::string(cell->has_live_children()
                                                                     ? "its children live on"
                                                                     : "no thread was free for it"),
                       "",
                       {}});
  }
  arm_stop(cell, reactor_.now() + kCloseLimit);
}

void ActorSystem::end_failed(ActorCell& cell, Fault fault) {
  if (!cell.life.on_failed(std::move(fault), std::chrono::system_clock::now())) return;
  std::string causes;
  for (const auto& cause : cell.life.fault().causes) causes += "; because: " + cause;
  log::warn("actor " + cell.id.to_string() + " " + cell.life.words() + causes);
  drop_mail(cell);
  cell.tasks.clear();
  begin_stop_of_children(cell, "its parent " + name_of(cell) + " has failed",
                         Clock::now() + kOrphanGrace);
  tell_parent(cell);
  on_ended(cell);
}

void ActorSystem::tell_parent(ActorCell& cell) {
  if (cell.parent == nullptr || cell.parent->life.is_ended() || cell.parent->is_closing) return;
  const Fault& fault = cell.life.fault();
  ActorFailure failure{cell.id, fault.error, fault.message, fault.causes};
  cell.parent->tasks.push_back(
      {"the failure of its child " + name_of(cell),
       [failure](Actor& actor, ActorContext& context) -> std::optional<Fault> {
         const std::string child =
             failure.actor.name().to_string() + "[" + std::to_string(failure.actor.pid()) + "]";
         Fault own{"its child " + child + " has failed", "", {}};
         try {
           if (actor.on_child_failed(context, failure)) return std::nullopt;
         } catch (...) {
           own = describe(std::current_exception(), "the failure of its child " + child);
         }
         own.causes.push_back(failure.message.empty()
                                  ? failure.error
                                  : "in message " + failure.message + ": " + failure.error);
         own.causes.insert(own.causes.end(), failure.causes.begin(), failure.causes.end());
         if (own.causes.size() > 16) own.causes.resize(16);
         return own;
       }});
  schedule(*cell.parent);
}

void ActorSystem::drop_mail(ActorCell& cell) {
  for (auto& letter : cell.mailbox.take_all()) {
    if (!letter.is_call()) {
      ++cell.dropped;
      continue;
    }
    later([this, envelope = letter.envelope, header = letter.header,
           error = Error(ErrorCode::no_such_port,
                         "actor " + cell.id.to_string() + " " + cell.life.words())] {
      tell(envelope, header, fail(error));
    });
  }
}

void ActorSystem::on_ended(ActorCell& cell) {
  const auto self = cell.shared_from_this();
  if (cell.parent != nullptr) {
    std::erase(cell.parent->children, self);
    if (!cell.parent->life.is_open()) schedule(*cell.parent);
  }
  table_.note_end(cell);
  changed(cell);
  later([this, self] {
    reactor_.cancel(self->stop_timer);
    for (const auto& [number, timer] : self->timers) reactor_.cancel(timer);
    self->timers.clear();
  });
  if (table_.live() != 0) return;
  later([this] {
    for (const auto& done : std::exchange(when_all_ended_, {})) done();
  });
}

void ActorSystem::stop_all(const std::string& reason, Time end, std::function<void()> done) {
  const Lock lock(mutex_);
  is_ending_ = true;
  if (table_.live() == 0) return reactor_.post(std::move(done));
  when_all_ended_.push_back(std::move(done));
  // Children are stopped by their parents.
  std::vector<std::shared_ptr<ActorCell>> roots;
  for (const auto& [key, cell] : table_.all()) {
    if (cell->parent == nullptr || cell->parent->life.is_ended()) roots.push_back(cell);
  }
  for (const auto& cell : roots) begin_stop(*cell, reason, end);
}

}  // namespace meshbus::mesh_proc
