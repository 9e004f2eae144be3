# shellcheck shell=bash
# units.sh: in a container whose process 1 is systemd, with the packages installed.
fail() {
  echo "$*"
  systemctl status --no-pager -l meshbus-host meshbus-controller || true
  journalctl --no-pager -n 40 || true
  exit 1
}
# until WHAT SECONDS COMMAND...: fails when that does not come true in time
until_true() {
  local what=$1 end=$((SECONDS + $2))
  until "${@:3}" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "not within $2 s: $what"
    read -rt 0.2 <> <(:) || true
  done
}
# The container installs systemd first.
end=$((SECONDS + 120))
until [[ -d /run/systemd/system ]] && systemctl list-units >/dev/null 2>&1; do
  ((SECONDS < end)) || { echo "no systemd runs here"; exit 1; }
  read -rt 0.5 <> <(:) || true
done
own() { # as the units' user
  setpriv --reuid meshbus --regid meshbus --clear-groups env -i HOME=/var/lib/meshbus \
    PATH=/usr/bin:/bin timeout 60 "$@"
}
property() { systemctl show -p "$2" --value "$1"; }
two_procs() { [[ $(pgrep -u meshbus -xc sleep) == 2 ]]; }
no_procs() { ! pgrep -u meshbus -x sleep; }
replaced() { systemctl is-active meshbus-host && [[ $(property meshbus-host MainPID) != "$1" ]]; }
other_agent() { pgrep -u meshbus -x meshbus-agent | grep -vx "$1"; }

# Without man(1): whether a page is there is checked elsewhere.
systemd-analyze verify --man=no meshbus-host.service meshbus-controller.service ||
  fail "systemd-analyze verify"
for unit in meshbus-host meshbus-controller; do
  exposure=$(systemd-analyze security --no-pager "$unit.service" |
    sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p')
  echo "systemd-analyze security $unit: $exposure"
  awk -v is="$exposure" 'BEGIN {exit !(is > 0 && is <= 4.0)}' || fail "above 4"
done

systemctl start meshbus-host || fail "meshbus-host does not start"
address=$(property meshbus-host StatusText)
address=${address#serves }
[[ $address == unix:/run/meshbus/host-*/bus ]] || fail "it serves: $address"
own meshbus ps --hosts "$address" || fail "ps"
own meshbus ps | grep -q "^host $address" || fail "ps without --hosts, as the service's user"
[[ $(meshbus ps 2>&1) == *'sudo -u meshbus'* ]] || fail "root is not told whose host runs"
printf 'MESHBUS_CONTROLLER_OPTIONS="--hosts %s"\n' "$address" >/etc/default/meshbus-controller
systemctl start meshbus-controller || fail "meshbus-controller does not start"
own meshbus spawn owned -n 2 --hosts "$address" -- sleep 2000 || fail "spawn"
until_true "two procs" 10 two_procs
before=$(pgrep -u meshbus -x sleep | sort)
grep -q meshbus-host.service "/proc/${before%%$'\n'*}/cgroup" ||
  fail "a proc is outside of the unit"
agent=$(pgrep -u meshbus -x meshbus-agent)
kill -9 "$agent"
until_true "another agent" 10 other_agent "$agent"
until_true "the agent answers" 20 own meshbus ping --hosts "$address"
[[ $(pgrep -u meshbus -x sleep | sort) == "$before" ]] || fail "procs did not outlive the agent"
echo "procs outlived a killed agent"
kill -9 "$(property meshbus-controller MainPID)"
until_true "the controller is back" 15 systemctl is-active meshbus-controller
[[ $(pgrep -u meshbus -x sleep | sort) == "$before" ]] || fail "procs did not outlive a controller"
echo "procs outlived a killed controller"
systemctl restart meshbus-host || fail "restart"
until_true "procs end with the unit" 20 no_procs
echo "procs ended with the unit"
# A main process that is stopped gives no sign of life: the watchdog ends it, and starts another.
mkdir -p /run/systemd/system/meshbus-host.service.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/meshbus-host.service.d/quick.conf
systemctl daemon-reload
systemctl restart meshbus-host || fail "restart with a watchdog of 2 s"
main=$(property meshbus-host MainPID)
kill -STOP "$main"
until_true "the watchdog starts another host" 60 replaced "$main"
echo "the watchdog replaced a stopped host"
systemctl stop meshbus-controller meshbus-host
[[ $(property meshbus-host Result) == success ]] || fail "it did not end well"
! pgrep -u meshbus || fail "something is left of it"
[[ ! -e /run/meshbus ]] || fail "/run/meshbus is left"
journalctl --no-pager -u meshbus-host -u meshbus-controller -n 60
