#include "tests/unit/supervision/pair_world.h"

#include <algorithm>

#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

/// The controllers of the simulated pair, and what happens to them.
namespace meshbus::test {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds kPairAnswerLimit{1000};
/// A controller hears within so long whose a mesh is.
constexpr std::chrono::seconds kDisputeLimit{10};

}  // namespace

SupervisedPairWorld::SupervisedPairWorld(std::uint64_t seed, std::size_t hosts, std::size_t seats)
    : random_(seed), hosts_(hosts), seats_(seats) {
  for (std::size_t i = 0; i < hosts; ++i) {
    hosts_[i].address = *HostAddr::parse("tcp:h" + std::to_string(i) + ":7420");
    hosts_[i].incarnation = random_();
    // They have run for long.
    hosts_[i].term.emplace(now_ - 1h);
  }
  for (std::size_t i = 0; i < seats; ++i) begin_seat(i);
}

std::string SupervisedPairWorld::name_of(std::size_t seat) {
  return "tcp:h" + std::to_string(seat) + ":7420,controller";
}

void SupervisedPairWorld::at(Time time, std::function<void()> task) {
  queue_.emplace(std::pair(std::max(time, now_), next_++), std::move(task));
}

void SupervisedPairWorld::send(std::size_t seat, std::size_t host, bool is_back,
                               std::function<void()> deliver) {
  if (is_cut(seat, host) || static_cast<int>(random_() % 100) < loss_) return;
  const auto delay = random_() % 20 == 0 ? any(0, longest_) : any(0, 5);
  // One connection: nothing overtakes.
  auto& last = last_[{seat, host, is_back}];
  last = std::max(last, now_ + delay);
  at(last, [this, seat, host, deliver = std::move(deliver)] {
    if (!is_cut(seat, host) && !hosts_[host].is_dead) deliver();
  });
}

void SupervisedPairWorld::run(Duration length) {
  const auto end = now_ + length;
  while (problem_.empty() && !queue_.empty() && queue_.begin()->first.first <= end) {
    now_ = std::max(now_, queue_.begin()->first.first);
    auto task = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    task();
    check();
  }
  now_ = std::max(now_, end);
}

// --- controllers ---

void SupervisedPairWorld::kill_seat(std::size_t seat) {
  auto& one = seats_[seat];
  one.candidacy.reset();
  one.supervisor.reset();
  one.unread.clear();
  one.open.clear();
  one.owned.clear();
  ++one.life;
}

void SupervisedPairWorld::begin_seat(std::size_t seat) {
  auto& one = seats_[seat];
  if (one.candidacy) return;
  Supervisor::Options options;
  for (const auto& host : hosts_) options.hosts.push_back(host.address);
  options.poll = 2s;
  options.probe = 300ms;
  options.silence = 1200ms;
  one.incarnation = random_() | 1;
  one.is_frozen = false;
  one.supervisor = std::make_unique<Supervisor>(options, now_);
  one.candidacy.emplace(
      Candidacy::Options{.hosts = hosts_.size(), .lease = kTerm, .seed = random_()}, now_);
  act(seat, one.supervisor->connected(true, now_));
}

void SupervisedPairWorld::freeze(std::size_t seat, bool is_frozen) {
  auto& one = seats_[seat];
  if (!one.candidacy || std::exchange(one.is_frozen, is_frozen) == is_frozen || is_frozen) return;
  for (auto& task : std::exchange(one.unread, {})) task();
  turn(seat);
}

void SupervisedPairWorld::at_seat(std::size_t seat, std::uint64_t life,
                                  std::function<void()> task) {
  auto& one = seats_[seat];
  if (!one.candidacy || one.life != life) return;
  if (one.is_frozen) {
    one.unread.push_back(std::move(task));
    return;
  }
  // As PairSeat::look() does.
  if (one.candidacy->is_acting() && !may_act(seat)) carry_out(seat, one.candidacy->turn(now_));
  task();
}

bool SupervisedPairWorld::may_act(std::size_t seat) const {
  return seats_[seat].candidacy && seats_[seat].candidacy->may_act(now_);
}

std::optional<std::size_t> SupervisedPairWorld::actor() const {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (may_act(i)) return i;
  }
  return std::nullopt;
}

bool SupervisedPairWorld::is_owned_by(std::size_t seat, const std::string& mesh) const {
  const auto* const known = seats_[seat].supervisor ? seats_[seat].supervisor->find(mesh) : nullptr;
  return known != nullptr && seats_[seat].supervisor->is_owned(*known);
}

void SupervisedPairWorld::wake(std::size_t seat) {
  auto& one = seats_[seat];
  const auto due = std::min(one.candidacy->next_due(), one.supervisor->next_due());
  at(std::max(due, now_ + 1ms), [this, seat, token = ++one.wake] {
    auto& woken = seats_[seat];
    if (token == woken.wake && woken.candidacy && !woken.is_frozen) turn(seat);
  });
}

void SupervisedPairWorld::turn(std::size_t seat) {
  auto& one = seats_[seat];
  if (one.candidacy->next_due() <= now_ || (one.candidacy->is_acting() && !may_act(seat)))
    carry_out(seat, one.candidacy->turn(now_));
  act(seat, one.supervisor->turn(now_));
}

void SupervisedPairWorld::carry_out(std::size_t seat, const Candidacy::Actions& actions) {
  auto& one = seats_[seat];
  for (const auto& claim : actions.claims) {
    const auto life = one.life;
    send(seat, claim.host, false, [this, seat, claim, life, from = one.incarnation] {
      const auto said = on_claim(seat, claim.host, from, claim);
      send(seat, claim.host, true, [this, seat, claim, life, said] {
        at_seat(seat, life, [this, seat, claim, said] {
          auto& candidacy = *seats_[seat].candidacy;
          carry_out(seat, candidacy.answer(claim, said.said, now_));
          // As PairSeat::on_answer() does.
          if (claim.step == wire::TermStep::act && candidacy.is_acting() &&
              claim.number == candidacy.number())
            act(seat,
                seats_[seat].supervisor->claimed(hosts_[claim.host].address, said.former, now_));
          wake(seat);
        });
      });
    });
  }
  if (actions.change == Candidacy::Change::acts)
    act(seat, one.supervisor->add_name(name_of(seat), now_));
  if (actions.change == Candidacy::Change::stands_by) act(seat, one.supervisor->drop_names(now_));
}

void SupervisedPairWorld::act(std::size_t seat, Supervisor::Actions actions) {
  auto& one = seats_[seat];
  for (const auto& event : actions.events) {
    if (event.kind != WatchEvent::Kind::host_back || !event.mesh.empty()) continue;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (hosts_[host].address == event.host) carry_out(seat, one.candidacy->host_back(host, now_));
    }
  }
  for (const auto& question : actions.questions) ask(seat, question);
  wake(seat);
  note_owned(seat);
}

void SupervisedPairWorld::note_owned(std::size_t seat) {
  auto& one = seats_[seat];
  std::set<std::string> owned;
  for (const auto& [name, mesh] : one.supervisor->meshes()) {
    if (!mesh.is_ours() || !may_act(seat)) continue;
    owned.insert(name);
    if (one.owned.contains(name)) continue;
    ++gains_;
    const bool is_blind = std::ranges::any_of(
        meshes_.at(name), [&](std::size_t host) { return owner_on(host, name) != name_of(seat); });
    blind_gains_ += is_blind ? 1U : 0U;
  }
  one.owned = std::move(owned);
}

void SupervisedPairWorld::answer(std::size_t seat, std::uint64_t id, const HostAnswer& answer) {
  auto& one = seats_[seat];
  const auto found = one.open.find(id);
  if (found == one.open.end()) return;
  const auto question = found->second;
  one.open.erase(found);
  act(seat, one.supervisor->answer(question, answer, now_));
}

void SupervisedPairWorld::ask(std::size_t seat, const Supervisor::Question& question) {
  using Kind = Supervisor::Question::Kind;
  auto& one = seats_[seat];
  const auto id = next_++;
  one.open.emplace(id, question);
  const auto life = one.life;
  const auto reply = [this, seat, life, id](const HostAnswer& said) {
    at_seat(seat, life, [this, seat, id, said] { answer(seat, id, said); });
  };
  const bool is_owners = question.kind == Kind::renew || question.kind == Kind::restart;
  if (is_owners && !may_act(seat))
    return at(now_, [reply] { reply(fail(ErrorCode::would_block, "its term is over")); });
  at(now_ + kPairAnswerLimit, [reply] { reply(fail(ErrorCode::timeout, "no answer")); });
  std::optional<RestartPlan> plan;
  if (question.kind == Kind::restart)
    plan = one.supervisor->find(question.mesh)->restart_plan(question.host, now_);
  const auto found = std::ranges::find(hosts_, question.host, &Host::address);
  const auto host = static_cast<std::size_t>(found - hosts_.begin());
  const auto term = one.candidacy->number();
  send(seat, host, false, [=, this, from = one.incarnation] {
    const auto said = on_question(seat, host, from, question, term, plan);
    send(seat, host, true, [reply, said] { reply(said); });
  });
}

// --- the launcher ---

void SupervisedPairWorld::take_over(const std::string& mesh) {
  const auto seat = actor();
  if (!seat || seats_[*seat].is_frozen || !is_owned_by(*seat, mesh)) return;
  auto& one = seats_[*seat];
  one.supervisor->hold(mesh);
  struct Asked {
    std::size_t open;
    std::uint64_t gifts;
    bool is_done = true;
  };
  const auto asked = std::make_shared<Asked>(Asked{meshes_.at(mesh).size(), gifts_[mesh]});
  const auto term = one.candidacy->number();
  for (const auto host : meshes_.at(mesh)) {
    const auto is_heard = std::make_shared<bool>(false);
    const auto take = [=, this, seat = *seat, life = one.life](bool is_done) {
      at_seat(seat, life, [=, this] {
        if (std::exchange(*is_heard, true)) return;
        asked->is_done = asked->is_done && is_done;
        if (--asked->open != 0) return;
        finish_take_over(seat, mesh, asked->is_done, asked->gifts);
      });
    };
    at(now_ + kPairAnswerLimit, [take] { take(false); });
    send(*seat, host, false, [=, this, seat = *seat, from = one.incarnation] {
      const bool is_done = on_hand_over(seat, host, from, term, mesh).has_value();
      send(seat, host, true, [take, is_done] { take(is_done); });
    });
  }
}

void SupervisedPairWorld::finish_take_over(std::size_t seat, const std::string& mesh, bool is_done,
                                           std::uint64_t gifts) {
  if (!is_done) return act(seat, seats_[seat].supervisor->resume(mesh, now_));
  seats_[seat].supervisor->let_go(mesh);
  // A controller that was frozen hears late of it, when the launcher has given it back since.
  if (gifts_[mesh] != gifts) return;
  launchers_[mesh] = now_;
  ++launcher_meshes_;
}

void SupervisedPairWorld::give_back(const std::string& mesh) {
  const auto seat = actor();
  if (!seat || seats_[*seat].is_frozen) return;
  launchers_.erase(mesh);
  ++gifts_[mesh];
  for (const auto host : meshes_.at(mesh)) {
    if (hosts_[host].is_dead || !owner_on(host, mesh).ends_with("client-11111111111b")) continue;
    const auto number = seats_[*seat].candidacy->number();
    at(now_ + any(0, longest_), [=, this, seat = *seat, from = seats_[*seat].incarnation] {
      // A controller that has never reached the host is none of the pair there, and what is handed
      // to it ends with its lease.
      const bool is_known = hosts_[host].term->check(from, number).has_value();
      if (is_known && owner_on(host, mesh).ends_with("client-11111111111b"))
        set_owner(host, mesh, name_of(seat));
    });
  }
}

// --- what happens, and what must be so ---

void SupervisedPairWorld::check() {
  std::size_t acting = 0;
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) acting += may_act(seat) ? 1U : 0U;
  if (acting > 1) wrong("two act");
  const auto seat = actor();
  for (const auto& [mesh, hosts] : meshes_) {
    const bool is_known = seat && launchers_.contains(mesh) && !seats_[*seat].is_frozen &&
                          std::ranges::all_of(hosts, [&](std::size_t host) {
                            return !is_cut(*seat, host) && !hosts_[host].is_dead;
                          });
    if (!is_known || !is_owned_by(*seat, mesh)) {
      disputed_.erase(mesh);
    } else if (now_ - disputed_.try_emplace(mesh, now_).first->second > kDisputeLimit) {
      wrong(mesh + " is a launcher's, and the controller takes it for its own");
    }
  }
}

void SupervisedPairWorld::heal() {
  cuts_.clear();
  loss_ = 0;
  longest_ = 5;
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    freeze(seat, false);
    begin_seat(seat);
  }
}

void SupervisedPairWorld::torment(Duration length, std::size_t most_dead) {
  loss_ = static_cast<int>(random_() % 10);
  longest_ = 1 + static_cast<int>(random_() % 800);
  for (const auto end = now_ + length; now_ < end && problem_.empty();) {
    run(any(1, 600));
    misfortune(most_dead);
  }
}

void SupervisedPairWorld::misfortune(std::size_t most_dead) {
  const auto seat = actor() && random_() % 2 == 0 ? *actor() : random_() % seats_.size();
  const auto host = random_() % hosts_.size();
  const auto mesh =
      std::next(meshes_.begin(), static_cast<std::ptrdiff_t>(random_() % meshes_.size()))->first;
  const auto dead = std::ranges::count_if(hosts_, &Host::is_dead);
  switch (random_() % 12) {
    case 0: return kill_seat(seat);
    case 1: return begin_seat(seat);
    case 2: return freeze(seat, true);
    case 3: return freeze(seat, false);
    case 4: {
      // The host is cut off from all controllers but one.
      for (std::size_t other = 0; other < seats_.size(); ++other) {
        if (other != seat) cut(other, host, true);
      }
      return;
    }
    case 5: return cut(seat, host, true);
    case 6:
    case 7: return cuts_.clear();
    case 8: return kill_rank(mesh, host);
    case 9: return take_over(mesh);
    case 10: return give_back(mesh);
    default:
      // A machine, with its controller.
      if (random_() % 4 != 0 || static_cast<std::size_t>(dead) >= most_dead) return;
      kill_host(host);
      if (host < seats_.size()) kill_seat(host);
  }
}

}  // namespace meshbus::test
