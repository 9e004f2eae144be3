#include "broker/observe/audit_trail.h"

#include <array>
#include <ctime>
#include <tuple>

#include <nlohmann/json.hpp>

#include "common/security/keys.h"
#include "wire/control_generated.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

using Json = nlohmann::ordered_json;

/// Requests that wait for their answers at a time, and how long each does.
constexpr std::size_t kMostAuditWaiting = 4096;
constexpr std::chrono::seconds kAuditAnswerLimit{60};
/// Execs whose ends are awaited. The end of one whose agent has died never comes.
constexpr std::size_t kMostAuditRunning = 4096;
/// Principals of few rights, with a verb each, that are told apart in a second.
constexpr std::size_t kMostAuditFirsts = 1024;
/// Larger messages are the output of an exec: they are not looked into.
constexpr std::size_t kLargestAuditedAnswer = 16 * 1024;
constexpr std::size_t kLongestEntryText = 1024;
/// How much of the file one request for entries looks at.
constexpr std::uint64_t kMostRead = 16ULL << 20U;

std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// "2026-11-25T01:37:03.123Z"
std::string time_text(std::int64_t time_ns) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<int>(time_ns / 1'000'000 % 1000));
  return text.data();
}

/// "0-3,7"
std::string ranks_text(const std::vector<wire::RankInterval>& ranks) {
  std::string text;
  for (const auto& block : ranks) {
    text += (text.empty() ? "" : ",") + std::to_string(block.begin());
    if (block.end() > block.begin() + 1) text += "-" + std::to_string(block.end() - 1);
  }
  return text;
}

}  // namespace

AuditedPrincipal AuditedPrincipal::of(const Identity& identity) {
  return {.by = identity.user.empty() ? identity.principal : identity.user,
          .role = identity.is_link() ? wire::Role::host : identity.role,
          .address = identity.address,
          .peer = identity.text,
          .pid = identity.pid};
}

AuditedPrincipal AuditedPrincipal::over_link(const HostAddr& host, wire::Role role) {
  return {.by = "host " + host.to_string(), .role = role};
}

void AuditTrail::on_control(const AuditedPrincipal& from, const std::string& to,
                            const wire::Envelope& envelope, Bytes body) {
  const auto message = ControlMessage::decode(body);
  if (!message || message->head().is_answer) return;
  const bool is_limited = from.role < wire::Role::operate;
  auto request = audited_request(*message);
  if (!request && is_limited) request = attempted_request(*message);
  if (!request) return;
  if (is_limited && !may_write(requests_, from.by, request->verb)) return;
  Entry entry{from, std::move(*request), to, unix_ns(), now_()};
  // Over a link only the key of the requester is proven.
  if (entry.principal.peer.empty() && !entry.request.claimed_peer.empty()) {
    const auto peer = ProcId::parse(entry.request.claimed_peer);
    if (peer && peer->key() == envelope.source_proc()) entry.principal.peer = peer->to_string();
  }
  const std::uint64_t id = message->head().id;
  if (id == 0) return write(entry, "asked");
  expire();
  const Key key{envelope.source_proc(), id};
  order_.emplace_back(entry.asked, key);
  waiting_[key.first].insert_or_assign(id, std::move(entry));
}

namespace {

std::string outcome_of(const ControlMessage& answer) {
  const auto* const refusal = answer.body_as<wire::Refusal>();
  if (refusal != nullptr)
    return "refused: " + cut_text(text_of(refusal->detail()), kLongestEntryText);
  // The host has passed the order on, and the owner has not done it.
  const auto* const resized = answer.body_as<wire::MeshResized>();
  if (resized != nullptr && resized->code() != wire::ErrorCode::none)
    return "not done: " + cut_text(text_of(resized->problem()), kLongestEntryText);
  return "ok";
}

}  // namespace

void AuditTrail::on_answer(const wire::Envelope& envelope, Bytes body) {
  if (body.size() > kLargestAuditedAnswer && !waiting_.contains(envelope.destination_proc()))
    return;
  const auto message = ControlMessage::decode(body);
  if (!message) return;
  const auto* const ended = message->body_as<wire::ExecEnded>();
  if (ended != nullptr && envelope.role() >= wire::Role::host)
    return on_exec_ended(envelope.destination_proc(), *ended);
  const auto found = waiting_.find(envelope.destination_proc());
  if (found == waiting_.end() || !message->head().is_answer) return;
  const auto entry = found->second.find(message->head().id);
  if (entry == found->second.end()) return;
  const auto* refusal = message->body_as<wire::Refusal>();
  write(entry->second, outcome_of(*message));
  if (entry->second.request.exec != 0 && refusal == nullptr)
    await_end(found->first, std::move(entry->second));
  found->second.erase(entry);
  if (found->second.empty()) waiting_.erase(found);
}

void AuditTrail::await_end(std::uint64_t requester, Entry entry) {
  if (running_count_ >= kMostAuditRunning) forget_oldest();
  const auto exec = entry.request.exec;
  if (running_[requester].emplace(exec, std::move(entry)).second) ++running_count_;
}

void AuditTrail::forget_oldest() {
  auto oldest = running_.begin();
  std::uint64_t number = 0;
  auto asked = Time::max();
  for (auto at = running_.begin(); at != running_.end(); ++at) {
    for (const auto& [exec, entry] : at->second) {
      if (entry.asked >= asked) continue;
      std::tie(oldest, number, asked) = std::tuple(at, exec, entry.asked);
    }
  }
  Entry entry = oldest->second.extract(number).mapped();
  if (oldest->second.empty()) running_.erase(oldest);
  --running_count_;
  entry.request.verb += " ended";
  write(entry, "not heard of");
}

void AuditTrail::on_exec_ended(std::uint64_t requester, const wire::ExecEnded& ended) {
  const auto found = running_.find(requester);
  if (found == running_.end()) return;
  const auto running = found->second.extract(ended.exec());
  if (found->second.empty()) running_.erase(found);
  if (running.empty()) return;
  --running_count_;
  Entry entry = running.mapped();
  entry.request.verb += " ended";
  entry.time_ns = unix_ns();
  std::string outcome = ended.signal() != 0 ? "signal " + std::to_string(ended.signal())
                                            : "exit " + std::to_string(ended.code());
  if (ended.reason() != nullptr && ended.reason()->size() > 0)
    outcome += ": " + cut_text(text_of(ended.reason()), kLongestEntryText);
  write(entry, outcome);
}

void AuditTrail::note(const AuditedPrincipal& principal, const std::string& verb,
                      const std::string& what, const std::string& outcome) {
  auto& limit = outcome == "ok" ? connections_ : refusals_;
  if (principal.role < wire::Role::operate && !may_write(limit, principal.by, verb)) return;
  write(
      {principal, {.verb = verb, .what = cut_text(what, kLongestEntryText)}, {}, unix_ns(), now_()},
      cut_text(outcome, kLongestEntryText));
}

bool AuditTrail::is_first_of_second(const std::string& by, const std::string& verb) {
  const Time now = now_();
  const auto is_over = [now](Time first) { return now - first >= std::chrono::seconds(1); };
  if (firsts_.size() >= kMostAuditFirsts)
    std::erase_if(firsts_, [&](const auto& one) { return is_over(one.second); });
  if (firsts_.size() >= kMostAuditFirsts) return false;
  const auto [found, is_new] = firsts_.try_emplace({by, verb}, now);
  if (!is_new && !is_over(found->second)) return false;
  found->second = now;
  return true;
}

bool AuditTrail::may_write(log::LineLimit& limit, const std::string& by, const std::string& verb) {
  if (is_first_of_second(by, verb)) return true;
  const auto left_out = limit.on_line(now_());
  left_out_ += left_out.value_or(0);
  return left_out.has_value();
}

void AuditTrail::expire() {
  const Time now = now_();
  while (!order_.empty() &&
         (order_.size() >= kMostAuditWaiting || now - order_.front().first > kAuditAnswerLimit)) {
    const auto [asked, key] = order_.front();
    order_.pop_front();
    const auto found = waiting_.find(key.first);
    if (found == waiting_.end()) continue;
    const auto entry = found->second.find(key.second);
    if (entry == found->second.end() || entry->second.asked != asked) continue;
    write(entry->second, "no answer yet");
    found->second.erase(entry);
    if (found->second.empty()) waiting_.erase(found);
  }
}

void AuditTrail::end(const std::string& outcome) {
  for (const auto& [requester, entries] : std::exchange(waiting_, {})) {
    for (const auto& [id, entry] : entries) write(entry, outcome);
  }
  order_.clear();
}

void AuditTrail::write(const Entry& entry, const std::string& outcome) {
  const AuditedPrincipal& who = entry.principal;
  const AuditedRequest& request = entry.request;
  Json json;
  json["time"] = time_text(entry.time_ns);
  json["host"] = host_.to_string();
  json["by"] = who.by;
  json["role"] = word_of(who.role);
  json["address"] = who.address.empty() ? Json(nullptr) : Json(who.address);
  json["peer"] = who.peer.empty() ? Json(nullptr) : Json(who.peer);
  json["pid"] = who.pid == 0 ? Json(nullptr) : Json(who.pid);
  json["verb"] = request.verb;
  json["to"] = entry.to.empty() ? Json(nullptr) : Json(entry.to);
  json["mesh"] = request.mesh.empty() ? Json(nullptr) : Json(request.mesh);
  json["ranks"] = request.ranks.empty() ? Json(nullptr) : Json(ranks_text(request.ranks));
  json["what"] = request.what;
  json["outcome"] = outcome;
  if (const auto missing = log_.lost() - told_lost_ + left_out_; missing > 0)
    json["lost_before"] = missing;
  const std::uint64_t lost = log_.lost();
  log_.append(json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  if (log_.lost() != lost) return;
  told_lost_ = lost;
  left_out_ = 0;
}

wire::EventListT AuditTrail::find(std::uint64_t from, std::size_t bytes) const {
  wire::EventListT list;
  list.host = host_.to_string();
  std::size_t used = 0;
  const auto stop = log_.read(from, kMostRead, [&](std::string_view line) {
    if (used + line.size() > bytes && used > 0) return false;
    used += line.size() + 64;
    auto event = std::make_unique<wire::EventT>();
    event->text = line;
    list.events.push_back(std::move(event));
    return true;
  });
  list.next = stop.next;
  list.more = !stop.at_end;
  return list;
}

}  // namespace meshbus
