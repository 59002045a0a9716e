#!/bin/bash
# `ready <port>`: whether the service in this container answers that it is ready. In the shell alone, since a Node that is
# started every few seconds would cost more than the service does.
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 5 _ status _ <&3
[[ $status == 200 ]]
