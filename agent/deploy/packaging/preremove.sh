#!/bin/sh
# Stops the services when the package goes. An upgrade calls this as well: dpkg with "upgrade", rpm with 1.
set -e
case "${1:-}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl stop 'mux-agent@*.service'
    fi
    ;;
esac
