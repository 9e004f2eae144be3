#include "broker/router/route_table.h"

#include <algorithm>
#include <string_view>

#include "wire/codes_generated.h"

namespace meshbus {
namespace {

/// "alice" of "operator alice": a user with another role is the same user.
std::string_view holder_of(std::string_view user) {
  return user.substr(std::min(user.find(' '), user.size()));
}

}  // namespace

Result<void> RouteTable::may_add(const Identity& identity) const {
  if (superseded_.contains({identity.key, identity.incarnation}))
    return fail(ErrorCode::identity_mismatch,
                "a later incarnation of " + identity.text + " has registered; this one is over");
  const auto found = peers_.find(identity.key);
  if (found == peers_.end()) {
    const Gone* gone = recall(identity.key);
    if (gone != nullptr && gone->text != identity.text)
      return fail(
          ErrorCode::identity_mismatch,
          "the key of " + identity.text + " is also that of " + gone->text + "; use another name");
    if (gone != nullptr && identity.kind == wire::PeerKind::launcher &&
        holder_of(gone->user) != holder_of(identity.user))
      return fail(
          ErrorCode::identity_mismatch,
          "the name " + identity.text + " was that of another user not long ago; use another one");
    return {};
  }
  const Identity& there = found->second->identity;
  if (there.text != identity.text)
    return fail(ErrorCode::identity_mismatch, "the key of " + identity.text + " is also that of " +
                                                  there.text +
                                                  ", which is registered; use another name");
  // Knowing the name and incarnation of another user's launcher does not make one that launcher.
  if (holder_of(there.user) != holder_of(identity.user))
    return fail(ErrorCode::identity_mismatch,
                "the name " + identity.text + " is in use by " +
                    (there.user.empty() ? "somebody on that machine" : there.user));
  // A process and a copy of it (`sh -c 'P & P'`) have one bootstrap: the first one is the rank. It
  // may come again on another connection.
  const bool is_twin = identity.kind == wire::PeerKind::proc &&
                       there.incarnation == identity.incarnation && there.pid != identity.pid;
  if (is_twin)
    return fail(ErrorCode::identity_mismatch,
                identity.text + " is process " + std::to_string(there.pid) +
                    ", which lives; process " + std::to_string(identity.pid) +
                    " was started with the same bootstrap and cannot be that proc, too");
  if (there.incarnation == identity.incarnation || (there.has_token() && identity.has_token()))
    return {};
  return fail(ErrorCode::identity_mismatch,
              "the name " + identity.text + " is in use by process " + std::to_string(there.pid));
}

Peer* RouteTable::add(Peer& peer) {
  last_ = nullptr;
  const auto [at, is_new] = peers_.try_emplace(peer.identity.key, &peer);
  gone_.erase(peer.identity.key);
  gone_guests_.erase(peer.identity.key);
  if (is_new) return nullptr;
  Peer* replaced = std::exchange(at->second, &peer);
  if (replaced->identity.incarnation != peer.identity.incarnation)
    superseded_.add({replaced->identity.key, replaced->identity.incarnation}, 0);
  return replaced;
}

void RouteTable::remove(const Peer& peer) {
  last_ = nullptr;
  const auto found = peers_.find(peer.identity.key);
  if (found == peers_.end() || found->second != &peer) return;
  peers_.erase(found);
  const Identity& identity = peer.identity;
  const bool is_guest =
      identity.kind == wire::PeerKind::launcher && identity.role < wire::Role::operate;
  (is_guest ? gone_guests_ : gone_).add(identity.key, {identity.text, identity.user});
}

}  // namespace meshbus
