#!/bin/sh
# Runs OpenTofu, TOFU, with these arguments, and stops at points that a spec names. A point is before or after a command in
# a directory of a run: before-apply-apply is the moment before the template is applied, after-base-apply the one after the
# reservation. Where the pipe hold-POINT exists in the directory "control" of the machine, the process id goes to at-POINT there, and
# the end of the pipe is waited for. The file "spy" gets the arguments and the environment of every run where it exists.
tofu=TOFU
control=${HOME%/cache/*}/control

if [ -f "$control/spy" ]; then
  { echo "arguments: $*"; env; } >>"$control/spy"
fi

stop() {
  [ -p "$control/hold-$1" ] || return 0
  echo $$ >"$control/at-$1.new"
  mv "$control/at-$1.new" "$control/at-$1"
  read -r _ <"$control/hold-$1"
}

point=${PWD##*/}-$1
stop "before-$point"
[ -p "$control/hold-after-$point" ] || exec "$tofu" "$@"
"$tofu" "$@"
status=$?
stop "after-$point"
exit $status
