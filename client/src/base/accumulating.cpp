#include "client/src/base/accumulating.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/bus/cast.h"
#include "common/security/token.h"
#include "wire/frame_generated.h"
#include "wire/replies_generated.h"

namespace meshbus {
namespace {

/// Longer than the hosts wait for their ranks, so that they are the ones that say which rank is
/// missing.
constexpr std::chrono::milliseconds kHostGrace{1000};

}  // namespace

Accumulating::Accumulating(Bus& bus, Question question, Explain explain)
    : bus_(&bus),
      reactor_(bus.reactor()),
      question_(std::move(question)),
      explain_(std::move(explain)),
      ticket_(random_u64()),
      accumulator_(question_.reducer, question_.to->targets.size(),
                   Accumulator::Deliver::snapshots),
      is_settled_(question_.to->targets.size()) {
  current_.num_ranks = question_.to->targets.size();
}

void Accumulating::find_hosts() {
  const auto& view = question_.to->view;
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>
      of_host;  // create rank, ordinal
  for (std::uint64_t ordinal = 0; ordinal < current_.num_ranks; ++ordinal)
    of_host[question_.to->targets[ordinal].host].emplace_back(*view.create_rank(ordinal), ordinal);
  std::map<std::uint64_t, HostAddr> addresses;
  for (const auto& address : view.hosts()) addresses.emplace(address.key(), address);
  for (auto& [key, ranks] : of_host) {
    std::sort(ranks.begin(), ranks.end());
    Host host{.address = addresses.at(key)};
    host.key = host_service(host.address).key();
    for (const auto& [rank, ordinal] : ranks) {
      host.ordinals.push_back(ordinal);
      if (!host.ranks.empty() && host.ranks.back().end == rank) {
        ++host.ranks.back().end;
      } else {
        host.ranks.push_back({rank, rank + 1});
      }
    }
    hosts_.push_back(std::move(host));
  }
}

Result<void> Accumulating::begin() {
  find_hosts();
  num_open_ = hosts_.size();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const CollectOrder order{.ticket = ticket_,
                             .mesh = question_.to->view.mesh().to_string(),
                             .reducer = question_.reducer.name,
                             .ranks = hosts_[i].ranks,
                             .asker = question_.asker,
                             .limit = question_.deadline,
                             .has_parts = question_.has_snapshots};
    bus_->call(Destination::to_agent(hosts_[i].address),
               static_cast<std::uint32_t>(wire::CollectPort::collect), encode(order),
               question_.deadline + kHostGrace,
               [self = shared_from_this(), i](const Result<std::string>& answer) {
                 self->on_final(i, answer);
               });
  }
  // Behind the calls on every way: a host knows what it is to collect before the first answer
  // comes.
  const auto body = encode_collected_call(ticket_, question_.deadline, question_.body);
  question_.body = {};
  if (body.size() > question_.to->body_limit) {
    auto asked = ask_large(body);
    if (!asked) end();
    return asked;
  }
  auto sent = bus_->cast(*question_.to, question_.port, body, true);
  if (!sent) end();
  return sent;
}

Result<void> Accumulating::ask_large(Bytes body) {
  // What fails at once is the caller's, and what fails later the ranks'.
  auto at_once = std::make_shared<std::optional<Result<void>>>(Result<void>());
  bus_->cast_large(
      question_.to, question_.port, SharedBody::copy(body),
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        return self != nullptr && self->bus_ != nullptr;
      },
      [weak = weak_from_this(), at_once](const Result<void>& sent) {
        if (*at_once) {
          *at_once = sent;
          return;
        }
        const auto self = weak.lock();
        if (sent || self == nullptr || self->bus_ == nullptr) return;
        for (const Host& host : self->hosts_) self->fail_rest(host, self->explain_(sent.error()));
        self->end();
      },
      /*no_return=*/true);
  return *std::exchange(*at_once, std::nullopt);
}

void Accumulating::end() {
  if (bus_ == nullptr) return;
  for (const Host& host : hosts_) {
    if (!host.is_open) continue;
    const auto told = bus_->send(Destination::to_agent(host.address),
                                 static_cast<std::uint32_t>(wire::CollectPort::end),
                                 with_header(wire::CollectedHeader(ticket_, 0, 0), {}), true);
    if (!told) log::debug("accumulate: " + told.error().to_string());
  }
  finish();
}

void Accumulating::finish() {
  bus_ = nullptr;
  reactor_.cancel(timer_);
  timer_ = 0;
  if (auto last = accumulator_.take(Accumulator::Time::max())) {
    current_.value = std::move(last->value);
    current_.ranks = std::move(last->ranks);
  }
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  changed_.notify_all();
}

void Accumulating::on_part(const wire::Envelope& from, const wire::CollectedPart& header,
                           Bytes body) {
  const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& one) {
    return one.key == from.source_proc() && one.address.key() == from.source_host();
  });
  if (bus_ == nullptr || host == hosts_.end() || !host->is_open) return;
  const auto collected = decode_collected(body);
  if (!collected)
    return log::warn("accumulate: from host " + host->address.to_string() + ": " +
                     collected.error().to_string());
  if (header.number() != host->parts + 1)
    return log::warn("accumulate: a part of host " + host->address.to_string() + " is missing");
  ++host->parts;
  ++current_.num_messages;
  take(*host, *collected);
  publish();
}

void Accumulating::on_final(std::size_t index, const Result<std::string>& answer) {
  Host& host = hosts_[index];
  if (bus_ == nullptr || !std::exchange(host.is_open, false)) return;
  ++current_.num_messages;
  const std::string name = "host " + host.address.to_string();
  if (!answer) {
    fail_rest(host,
              explain_(answer.error()).within(name + " has not said what it has of its ranks"));
  } else if (const auto collected = decode_collected(*answer); !collected) {
    fail_rest(host, collected.error().within(name));
  } else {
    take(host, *collected);
    fail_rest(host, collected->parts == host.parts
                        ? Error(ErrorCode::malformed_message, name + " says nothing of it")
                        : Error(ErrorCode::link_lost, "what " + name + " has reduced was lost"));
  }
  if (--num_open_ == 0) return finish();
  publish();
}

void Accumulating::take(const Host& host, const Collected& collected) {
  if (collected.reduced) {
    const auto added = add(host, *collected.reduced);
    if (!added) {
      const auto error = added.error().within("host " + host.address.to_string());
      for (const auto& run : collected.reduced->ranks.runs()) {
        for (auto rank = run.begin; rank < std::min<std::uint64_t>(run.end, host.ordinals.size());
             ++rank)
          fail_rank(host.ordinals[rank], error);
      }
    }
  }
  for (const auto& problem : collected.problems) {
    for (const RankBlock& block : problem.ranks) {
      for (auto rank = block.begin; rank < std::min<std::uint64_t>(block.end, host.ordinals.size());
           ++rank)
        fail_rank(host.ordinals[rank], problem.error);
    }
  }
}

Result<void> Accumulating::add(const Host& host, const Partial& part) {
  Partial mine{part.value, {}, false};
  std::vector<Overlay<bool>::Run> runs;
  for (const auto& run : part.ranks.runs()) {
    if (run.end > host.ordinals.size())
      return fail(ErrorCode::out_of_range, "it tells of ranks that are not there");
    for (auto rank = run.begin; rank < run.end; ++rank) {
      const auto ordinal = host.ordinals[rank];
      if (is_settled_[ordinal])
        return fail(ErrorCode::malformed_message, "it tells of a rank twice");
      runs.push_back({ordinal, ordinal + 1, true});
    }
  }
  mine.ranks = Overlay<bool>::of(std::move(runs));
  if (auto added = accumulator_.add(mine, reactor_.now()); !added) return added;
  for (const auto& run : mine.ranks.runs()) {
    for (auto ordinal = run.begin; ordinal < run.end; ++ordinal) is_settled_[ordinal] = true;
  }
  return {};
}

void Accumulating::fail_rest(const Host& host, const Error& error) {
  for (const auto ordinal : host.ordinals) fail_rank(ordinal, error);
}

void Accumulating::fail_rank(std::uint64_t ordinal, const Error& error) {
  if (is_settled_[ordinal]) return;
  is_settled_[ordinal] = true;
  current_.errors.emplace(ordinal, error);
}

void Accumulating::publish() {
  if (!question_.has_snapshots || timer_ != 0) return;
  const auto due = accumulator_.next_due();
  if (!due) return;
  timer_ = reactor_.at(*due, [this, weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    timer_ = 0;
    if (auto so_far = accumulator_.take(reactor_.now())) {
      current_.value = std::move(so_far->value);
      current_.ranks = std::move(so_far->ranks);
      {
        const std::lock_guard lock(mutex_);
        news_ = current_;
      }
      changed_.notify_all();
    }
    publish();
  });
}

void Accumulating::on_host_ended(const HostAddr& host, const std::string& reason) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].address == host) on_final(i, fail(ErrorCode::fate_unknown, reason));
  }
}

bool Accumulating::wait(const AccumulateOptions& options) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, options.stop, [this] { return is_done_ || news_.has_value(); });
    if (is_done_) return true;
    if (options.stop.stop_requested()) return false;
    const auto news = std::exchange(news_, std::nullopt);
    lock.unlock();
    const bool goes_on = options.on_snapshot(*news);
    lock.lock();
    if (!goes_on) return is_done_;
  }
}

}  // namespace meshbus
