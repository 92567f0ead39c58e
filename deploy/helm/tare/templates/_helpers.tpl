{{- define "tare.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tare.labels" -}}
app.kubernetes.io/name: tare
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tare.selector" -}}
app.kubernetes.io/name: tare
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
