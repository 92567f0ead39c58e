#!/bin/sh
# Before a removal, and not before an upgrade: dpkg says "remove", rpm says 0.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
units='tare-agent.service tare-serve.service'
if [ -d /run/systemd/system ]; then
  systemctl stop $units
fi
if command -v systemctl >/dev/null; then # it needs no systemd that runs
  systemctl disable $units
fi
