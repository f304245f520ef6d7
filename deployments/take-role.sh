#!/bin/sh
# What a run of Pulumi Deployments does before everything else, as one pre-run command: it takes a role by its token, and fails if
# AWS gives none. What it appends to /PULUMI_ENV is a variable of all that follows. The command sets role, seconds and session.
# shellcheck disable=SC2154
aws sts assume-role-with-web-identity --role-arn "$role" --duration-seconds "$seconds" \
  --role-session-name "$(printf %.64s "$session")" --web-identity-token "$PULUMI_OIDC_TOKEN" \
  --query 'Credentials.[AccessKeyId,SecretAccessKey,SessionToken]' --output text \
  | { read -r id key token && printf 'AWS_%s\n' "ACCESS_KEY_ID=$id" "SECRET_ACCESS_KEY=$key" "SESSION_TOKEN=$token" \
  >> /PULUMI_ENV; }
