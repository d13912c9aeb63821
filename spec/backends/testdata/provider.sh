#!/bin/sh
# Runs the provider, PROVIDER, and notes that in the file "spy" of the machine where that exists.
control=${HOME%/cache/*}/control

if [ -f "$control/spy" ]; then
  echo "provider" >>"$control/spy"
fi
exec PROVIDER "$@"
